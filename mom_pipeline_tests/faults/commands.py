"""Commands of the pipeline in processes that can be killed at a chosen point.

The libraries are imported once, in a process that forks for every command: a command then costs
its own work and not three seconds of imports.

    python -m mom_pipeline_tests.faults.commands

reads one JSON object a line, the arguments of `_become`, and answers each with two: the process
id of the command, and its exit code.
"""

import errno
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from mom_pipeline_tests.faults.points import Points

# What the commands import, but for the modules that read the settings of the data folder.
_BEFORE_THE_FORK = (
    "alembic.command",
    "dagster",
    "mom_pipeline.cli.erase",
    "mom_pipeline.cli.models",
    "mom_pipeline.cli.run",
    "mom_pipeline.cli.status",
    "mom_pipeline.comparison.run",
    "mom_pipeline.pipeline.choice",
    "mom_pipeline.report.page",
    "mom_pipeline.serving.gate",
    "pandas",
)


@dataclass(frozen=True)
class Kill:
    """Where a command is killed: before, after or some seconds into (`within`) an asset's day.

    Or, with `full`, where the disk is full in the middle of what the asset writes. Without an
    asset, some seconds after the start of the command. point: see `points`; `when` says how.
    """

    asset: str = ""
    day: str = ""
    when: str = "before"
    seconds: float = 0.0
    point: int = 0

    def __str__(self) -> str:
        if self.point:
            return f"{self.when} at point {self.point}"
        where = f"{self.when} {self.asset} of {self.day}" if self.asset else "the command"
        return f"{where} + {self.seconds:.2f} s"


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, or minus the number of the signal; and what it said."""

    code: int
    output: str


class Commands:
    """The process that forks for every command."""

    def __init__(self) -> None:
        # Not in the data folder, whose disk may be full.
        self._folder = tempfile.TemporaryDirectory()
        self._output = Path(self._folder.name, "output")
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, folder: Path, *arguments: str, kill: Kill | None = None, file_size: int = 0
    ) -> Ended:
        """Run a command on a data folder to its end, or until it is killed."""
        self.start(folder, *arguments, kill=kill, file_size=file_size)
        return self.end()

    def start(
        self, folder: Path, *arguments: str, kill: Kill | None = None, file_size: int = 0
    ) -> int:
        """Start a command, and return its process id; `end` waits for it.

        file_size: bytes that a file may grow to, as on a full disk; 0 for any.
        """
        assert self._server.stdin is not None
        request: dict[str, Any] = {"folder": str(folder), "arguments": arguments}
        request |= {"output": str(self._output), "file_size": file_size}
        request["kill"] = vars(kill) if kill else None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._line())

    def end(self) -> Ended:
        """Wait for the command that was started."""
        code = int(self._line())
        return Ended(code, self.said())

    def said(self) -> str:
        """Return what the command has said so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(60)
        self._folder.cleanup()

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, "the process that runs the commands is gone"
        return line


@contextmanager
def commands() -> Iterator[Commands]:
    """A process for commands, ended after the block."""
    running = Commands()
    try:
        yield running
    finally:
        running.close()


def _serve() -> None:
    for name in _BEFORE_THE_FORK:
        import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _become(**request)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(
    folder: str,
    arguments: Sequence[str],
    output: str,
    file_size: int,
    kill: dict[str, Any] | None,
) -> None:
    """Be the command, in the forked process."""
    code, points = 1, None
    try:
        out = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in ((0, nothing), (1, out), (2, out)):
            os.dup2(file, number)
        os.environ["MOM_DATA_DIR"] = folder
        if file_size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        sys.argv = ["mom-pipeline", *arguments]
        points = _prepare(Kill(**kill) if kill else None, Path(folder))
        from mom_pipeline.cli.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if points is not None:
            os.write(1, f"\n{json.dumps(points.counts)}".encode())
        os._exit(code)


def _prepare(kill: Kill | None, folder: Path) -> Points | None:
    """Set the point of the kill, before the assets are imported."""
    if kill is None:
        return None
    if kill.point:
        points = Points(folder, kill.point, kill.when)
        points.install()
        return points
    if not kill.asset:
        _kill_after(kill.seconds)
        return None
    from mom_pipeline.defs import daily

    one_day = daily._one_day

    def killed(asset: Any, run: Any, day: Any) -> Any:
        here = (asset.name, str(day)) == (kill.asset, kill.day)
        if here and kill.when == "full":
            _fill_the_disk()
        elif here and kill.when != "after":
            _kill_after(kill.seconds)
        output = one_day(asset, run, day)
        if here and kill.when == "after":
            _kill_after(kill.seconds)
        return output

    daily._one_day = killed
    return None


def _fill_the_disk() -> None:
    """Leave room for half an array."""
    from mom_pipeline.artifacts import store

    write = store.write_npz

    def write_half(file: IO[bytes], arrays: Any, **how: Any) -> None:
        array = io.BytesIO()
        write(array, arrays, **how)
        file.write(array.getvalue()[: len(array.getvalue()) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)

    store.write_npz = write_half


def _kill_after(seconds: float) -> None:
    def kill() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    if seconds:
        threading.Thread(target=kill, daemon=True).start()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _serve()
