"""Work in a separate process, within a budget of time and memory.

One `multiprocessing` process (spawn) and a pipe, not a pool of `concurrent.futures`: a pool cannot
stop a worker at the end of its time, and does not tell by which signal a worker died or what it
printed last. Only the standard library is imported here, so that the limits stand before any
library of the work starts threads or takes memory.
"""

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SHOWN_ERROR = 200
# Python, numpy and scipy with the threads of two cores take 200 MB. OpenBLAS that gets less may
# ask for it again and again, without a word.
_LEAST_MEMORY = 256_000_000
# What Python, its extensions, OpenBLAS and the loader of libraries print when they get no memory.
_NO_MEMORY = (
    "MemoryError",
    "error return without exception set",
    "returned NULL without setting an exception",
    "Memory allocation",
    "Cannot allocate memory",
    "failed to map segment",
)
_MAY_BE_MEMORY = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


@dataclass(frozen=True)
class Budget:
    """What a process may take; 0: no limit."""

    seconds: float = 0.0  # wall clock, from its start
    memory_bytes: int = 0  # private memory, used or only asked for
    threads: int = 0  # 1 for one core, 0 for all


def run_isolated(
    work: str,
    arguments: tuple[Any, ...],
    budget: Budget,
    log: Path,
    on_result: Callable[[Any], None],
) -> str:
    """Pass on what the generator "module:function" yields in a process; return why it failed."""
    if 0 < budget.memory_bytes < _LEAST_MEMORY:
        return out_of_memory(budget.memory_bytes)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_work, args=(theirs, work, arguments, budget, str(log)))
    deadline = time.monotonic() + budget.seconds if budget.seconds else None
    process.start()
    theirs.close()
    try:
        while ours.poll(_left(deadline)):
            on_result(ours.recv())
    except EOFError:
        process.join(_left(deadline))
        if process.exitcode is not None:
            return _ending(process.exitcode, log, budget)
    finally:
        process.kill()
        process.join()
        ours.close()
    if _lacks_memory(_last_line(log)):  # said so, and then waited for ever
        return out_of_memory(budget.memory_bytes)
    return f"takes longer than the {budget.seconds:g} s allowed"


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def out_of_memory(memory_bytes: int) -> str:
    allowed = f"the {memory_bytes / 1e9:g} GB allowed" if memory_bytes else "this machine has"
    return f"needs more memory than {allowed}"


def peak_bytes() -> int:
    """The most memory this program has had: ru_maxrss begins with that of its parent."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):  # another system
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_of_machine() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _work(
    results: Connection, work: str, arguments: tuple[Any, ...], budget: Budget, log: str
) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(log, "wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    if budget.threads == 1:
        _hold_to_one_core()
    if budget.memory_bytes:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (budget.memory_bytes, hard))
    module, function = work.split(":")
    for result in getattr(import_module(module), function)(*arguments):
        results.send(result)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _hold_to_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"


def _ending(code: int, log: Path, budget: Budget) -> str:
    """Say in words why a process ended early; an empty string for a regular end."""
    last = _last_line(log)
    if code == 0:
        return ""
    if _lacks_memory(last):
        return out_of_memory(budget.memory_bytes)
    if code > 0:
        return f"ended with code {code}: {last or 'no message'}"
    name = signal.Signals(-code).name
    guess = ", perhaps for lack of memory" if -code in _MAY_BE_MEMORY else ""
    return f"was ended by {name}{guess}" + (f": {last}" if last else "")


def _last_line(log: Path) -> str:
    printed = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
    return printed.splitlines()[-1][:_SHOWN_ERROR] if printed else ""


def _lacks_memory(line: str) -> bool:
    return any(word in line for word in _NO_MEMORY)
