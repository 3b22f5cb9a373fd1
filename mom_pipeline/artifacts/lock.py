"""The lock of a data folder: whoever writes to it, one process at a time.

An flock, which the system takes back however a process ends. Reading needs none. Neither do
`promote` and `rollback`, which must not wait for a run of an hour: the registry has its own.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from mom_pipeline.artifacts.scratch import remove_left_behind
from mom_pipeline.core.files import opened_lock
from mom_pipeline.errors import DataFolderBusy, DataFolderClosed
from mom_pipeline.settings import Settings

LOCK = ".writer"
OWNER_ONLY = 0o077
_LOOK_EVERY_SECONDS = 0.2
_SECONDS_OF_A_LOOK = 0.5
# The locks that this process holds: what it calls may ask for them again.
_held: dict[Path, IO[str]] = {}

Tell = Callable[[str], None]


@contextmanager
def writing_to(settings: Settings, who: str, *, waiting: Tell | None = None) -> Iterator[bool]:
    """Be the one who writes; yields whether it waited. Without `waiting` raises DataFolderBusy."""
    path = settings.data_dir.resolve() / LOCK
    if path in _held:
        yield False
        return
    before = os.umask(OWNER_ONLY)
    try:
        with _opened(path) as lock:
            waited = _acquire(lock, settings.data_dir, waiting)
            with suppress(OSError):  # for people: a full disk does not matter here
                lock.truncate(0)
                now = datetime.now(tz=UTC).isoformat(sep=" ", timespec="seconds")
                lock.write(f"{who} (process {os.getpid()}) since {now}")
                lock.flush()
            _held[path] = lock
            try:
                _close_to_others(settings)
                remove_left_behind(settings)
                yield waited
            finally:
                _held.pop(path, None)
                lock.truncate(0)
    finally:
        os.umask(before)


def writer_of(settings: Settings) -> str:
    """Return who writes to a data folder now and since when; "" for nobody."""
    try:
        with (settings.data_dir / LOCK).open(encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signature(settings.data_dir / LOCK)
    except (FileNotFoundError, PermissionError):
        pass  # nobody has ever written, or somebody whose folder this is not
    return ""


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return opened_lock(path)
    except OSError as error:
        raise DataFolderClosed(
            f"{path.parent} cannot be written to: {error.strerror}. Nothing was changed; give the "
            "user of this command the right to write there, and try again"
        ) from error


def _acquire(lock: IO[str], folder: Path, waiting: Tell | None) -> bool:
    told, begin = False, time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = _signature(folder / LOCK)
            # Whoever only looks (`writer_of`) holds it for an instant.
            if waiting is None and time.monotonic() - begin > _SECONDS_OF_A_LOOK:
                raise DataFolderBusy(
                    f"{folder} is being written to: {who}. Nothing was changed; try again when "
                    "that has ended"
                ) from error
            if waiting is not None and not told:
                waiting(f"Waiting for {who}, which writes to {folder}.")
                told = True
            time.sleep(_LOOK_EVERY_SECONDS)
        else:
            return told


def _signature(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") or "another process"


def _close_to_others(settings: Settings) -> None:
    """Leave ids to their owner alone; not the log files, whose deliverer decides."""
    s = settings
    folders = [
        *(s.warehouse_path, s.artifacts_dir, s.comparisons_dir, s.models_dir, s.reports_dir),
        *(s.exports_dir, s.erasures_dir, s.scratch_dir, s.data_dir / "dagster_home"),
    ]
    for top in folders:
        # What lies below a closed folder was closed with it, or made after it.
        if top.exists() and not top.is_symlink() and top.stat().st_mode & OWNER_ONLY:
            for path in (*top.rglob("*"), top):
                with suppress(OSError):  # of another owner, or gone by now
                    if not path.is_symlink():  # what a link names may lie outside of the folder
                        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OWNER_ONLY)


def _leave_to_parent() -> None:
    """A forked process holds no lock, and does not keep that of its parent alive."""
    for lock in _held.values():
        lock.close()
    _held.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
