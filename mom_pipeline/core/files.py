"""Files that appear whole or not at all: temporary name with the process's id, fsync, rename."""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` when the block ends without an error."""
    with replacing(path) as temporary, temporary.open("wb") as out:
        yield out


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to, which replaces `path` when the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file, whole or not at all."""
    with writing(path) as out:
        out.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a small text file, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(content: Path | bytes) -> str:
    """Return the sha256 of a file or of bytes, in hexadecimal digits."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def opened_lock(path: Path) -> IO[str]:
    """Open a file to lock it, made where there is none; what a link names is not touched."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    return os.fdopen(descriptor, "a+", encoding="utf-8")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder: one thread of one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with opened_lock(folder / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def temporary_path(path: Path) -> Path:
    """Return a name beside `path` that no other process or thread uses."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{os.getpid()}.tmp")


def is_left_over(path: Path) -> bool:
    """Return whether this is a temporary file or folder of a process that has ended."""
    *_, process, ending = ("", *path.name.rsplit(".", 2))
    return ending == "tmp" and process.isdecimal() and not is_running(int(process))


def is_running(pid: int) -> bool:
    """Return whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
