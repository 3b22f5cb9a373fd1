"""Dagster's daemon as a child process: it starts queued runs, schedules, sensors, backfills."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mom_pipeline.ui.errors import DaemonRunsAlready, DaemonStopped

DAEMON_PROCESS = "mom_pipeline.ui.daemon_process"
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
                f"wait for ever; read {self._log_path} and start again"
            )

    def stop(self) -> None:
        """Ask the process to end, insist after a bounded wait."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_daemon(home: Path, module: str) -> Iterator[Daemon]:
    """The daemon of a Dagster home while the block runs.

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
            [sys.executable, "-m", DAEMON_PROCESS, "run", "--module-name", module],
            # Closed by the system when this process is gone: the daemon's sign to stop.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Ctrl-C reaches this process alone, which then stops the daemon in order.
            start_new_session=True,
            # Held by the daemon too: until it has stopped, nobody may start another one.
            pass_fds=[lock_file.fileno()],
        )
    lock_file.truncate(0)
    lock_file.write(str(process.pid))
    lock_file.flush()
    return Daemon(process, log_path)
