"""Methods one after another, each in a process of its own, within a time and memory budget."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mom_pipeline.comparison.tasks import (
    Answer,
    Task,
    count_answers,
    out_of_memory,
    read_answers,
    write_task,
)

_POLL_SECONDS = 0.05
_SHOWN_ERROR = 200
# What Python, OpenBLAS and the loader of libraries say when they get no memory.
_NO_MEMORY = ("MemoryError", "Memory allocation", "failed to map segment")
_MAY_BE_MEMORY = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


@dataclass(frozen=True)
class Budget:
    """What a process may take; 0: no limit.

    seconds: wall clock, from its start.  memory_bytes: private memory, used or only asked for.
    threads: 1 for one core, 0 for all.
    """

    seconds: float = 0.0
    memory_bytes: int = 0
    threads: int = 0


def run_task(
    data_folder: Path,
    task_folder: Path,
    task: Task,
    budget: Budget,
    progress: Callable[[int], None] = lambda n_done: None,
) -> list[Answer]:
    """Have a task done by a new process; an answer for every setting, if only why there is none.

    progress: told how many of the settings are done.
    """
    write_task(task_folder, task)
    with (task_folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, arguments of our own
            [
                sys.executable, "-P", "-m", "mom_pipeline.comparison.worker", str(data_folder),
                str(task_folder), str(budget.threads), str(budget.memory_bytes),
            ],
            # Ends with this process: see worker.py. A session of its own, so that Ctrl-C comes
            # here alone, and the worker is stopped below.
            stdin=subprocess.PIPE, stdout=errors, stderr=errors,
            start_new_session=True, env=_environment(),
        )  # fmt: skip
    reason = _watched(process, task_folder, budget, progress)
    answers = read_answers(task_folder, len(task.settings))
    reason = reason or _ending(process.returncode, task_folder, budget)
    return [answer or Answer(failure=reason) for answer in answers]


def _watched(
    process: subprocess.Popen[bytes],
    folder: Path,
    budget: Budget,
    progress: Callable[[int], None],
) -> str:
    """Wait for the process; returns why it was stopped, or nothing when it ended by itself."""
    deadline = time.monotonic() + (budget.seconds or float("inf"))
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                return f"takes longer than the {budget.seconds:g} s allowed"
            progress(count_answers(folder))
            time.sleep(_POLL_SECONDS)
        return ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _ending(code: int, folder: Path, budget: Budget) -> str:
    """Say in words how a process ended that left an answer out."""
    said = (folder / "errors.txt").read_text(encoding="utf-8", errors="replace").strip()
    last = said.splitlines()[-1][:_SHOWN_ERROR] if said else ""
    if any(word in last for word in _NO_MEMORY):
        return out_of_memory(budget.memory_bytes)
    if code >= 0:
        return f"ended with code {code}: {last or 'no message'}"
    name = signal.Signals(-code).name
    guess = ", perhaps for lack of memory" if -code in _MAY_BE_MEMORY else ""
    return f"was ended by {name}{guess}" + (f": {last}" if last else "")


def _environment() -> dict[str, str]:
    """Return this environment, with the package importable wherever it lies."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
