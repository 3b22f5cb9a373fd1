"""Dagster's programs as child processes, which end when this process does.

A child is this module too, run by `python -m`. Its standard input is a pipe that the parent keeps
open and never writes to: however the parent ends, even by SIGKILL, the pipe closes, and the child
asks itself to stop in order.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import Self

from mom_pipeline.core.errors import MomError

MODULE = "mom_pipeline.ui.programs"
_SECONDS_TO_STOP = 30


class ProgramMissing(MomError):
    """A program of Dagster ended without being asked to, or must not be started twice."""


class Programs:
    """The programs of a Dagster home, each with a log there; stopped at the end of the block."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, *arguments: str, held: tuple[int, ...] = ()) -> None:
        """Start a program. held: descriptors that it shall keep open too."""
        with (self._home / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", MODULE, name, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches this process alone, which then stops the others in order.
                start_new_session=True,
                pass_fds=held,
            )

    def start_daemon(self, module: str) -> None:
        """Start `dagster-daemon`; ProgramMissing when there is one: two would start runs twice."""
        with (self._home / "daemon.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ProgramMissing(
                    f"{self._home} may have one daemon, and another `mom-pipeline ui` runs it; use "
                    "its pages, stop it, or add --no-daemon"
                ) from error
            # Locked as long as the daemon runs, also when this process is gone before it.
            self.start("dagster-daemon", "run", "-m", module, held=(lock.fileno(),))

    def check_alive(self) -> None:
        """Raise ProgramMissing when one of them has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ProgramMissing(
                    f"{name} must run beside the pages, but it ended with code "
                    f"{process.returncode}; read {self._home / name}.log and start again"
                )


def main() -> None:
    """Run the program that the arguments of this process name."""
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    (program,) = entry_points(group="console_scripts", name=sys.argv[0])
    program.load()()


def _stop_without_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
