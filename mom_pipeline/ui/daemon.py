"""Dagster's daemon as a child process: it starts queued runs, schedules, sensors, backfills.

The child is this module too, run by `python -m`. Its standard input is a pipe that the parent
keeps open and never writes to: however the parent ends, even by SIGKILL, the pipe closes, and
the daemon is asked to stop in order. It is started by its console script, Dagster's public way.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO

from mom_pipeline.ui import DaemonRunsAlready, DaemonStopped

DAEMON_MODULE = "mom_pipeline.ui.daemon"
_SECONDS_TO_STOP = 30


class Daemon:
    """A running daemon and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self._process = process
        self._log_path = log_path

    def check_alive(self) -> None:
        """Raise DaemonStopped when the process is gone."""
        code = self._process.poll()
        if code is not None:
            raise DaemonStopped(
                f"the daemon must run beside the pages, but it ended with code {code}: runs would "
                f"wait forever; read {self._log_path} and start again"
            )

    def stop(self) -> None:
        """Terminate the process, and kill it after a bounded wait."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_daemon(home: Path, module: str) -> Iterator[Daemon]:
    """Run the daemon of a Dagster home while the block runs.

    Raises DaemonRunsAlready when the home has one: two would start runs twice.
    """
    with (home / "daemon.lock").open("a+") as lock_file:
        _lock(lock_file, home)
        daemon = _start(home, module, lock_file)
        try:
            yield daemon
        finally:
            daemon.stop()


def _lock(lock_file: IO[str], home: Path) -> None:
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock_file.seek(0)
        raise DaemonRunsAlready(
            f"{home} may have one daemon, and process {lock_file.read() or 'unknown'} is it; use "
            "the pages started with it, stop it, or add --no-daemon for a second server"
        ) from error


def _start(home: Path, module: str, lock_file: IO[str]) -> Daemon:
    log_path = home / "daemon.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", DAEMON_MODULE, "run", "--module-name", module],
            # Closed by the system when this process is gone, which stops the daemon.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Ctrl-C reaches this process alone, which then stops the daemon in order.
            start_new_session=True,
            # Held by the daemon too: no other one can start before it has stopped.
            pass_fds=[lock_file.fileno()],
        )
    lock_file.truncate(0)
    lock_file.write(str(process.pid))
    lock_file.flush()
    return Daemon(process, log_path)


def main() -> None:
    """Run `dagster-daemon` with the arguments of this process."""
    threading.Thread(target=_stop_without_parent, daemon=True).start()
    (script,) = entry_points(group="console_scripts", name="dagster-daemon")
    script.load()()


def _stop_without_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
