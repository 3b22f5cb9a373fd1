"""One streamed pass over a log file: its sha256, its physical lines, and a text safe to parse.

Why not DuckDB's CSV reader with `store_rejects` (measured with DuckDB 2.0, lines in = read +
rejected?): an unterminated quote takes the good lines after it along (5 lines: 1 read, 1
rejected, 3 gone); empty lines and a line of 40 MB vanish without a reject; one CRLF among
newlines or a lone carriage return ends the file with an error; a quoted line break renumbers what
follows; and accepted rows carry no line number at all. Nothing may be lost here, so every text
file passes through this module first: lines are counted independently of the parser, and a line
that no parser could read is replaced by a marked one that says why. Files that need no
replacement (nearly all) are read in place; others are rewritten to a scratch file.
"""

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np

from mom_pipeline.errors import LogFileError, LogFileNotRead
from mom_pipeline.logs.logfiles import LogFile

MAX_LINE_BYTES = 1 << 20
QUARANTINED_CHARACTERS = 2000
# Control characters never survive the scan, so a line that starts with this one is ours.
MARK = "\x02"
_FIRST_PRINTABLE = 0x20
_UNREADABLE = re.compile(r"[^\n]*[\x00-\x08\x0b-\x1f\udc80-\udcff][^\n]*")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Scan:
    """What the pass gave. `readable` is the file itself or its rewritten copy.

    ended: the last line has its line end, as in every file that is whole.
    modified: when the file was changed last, in nanoseconds.
    """

    size_bytes: int
    sha256: str
    lines: int
    readable: Path
    ended: bool
    modified: int


def no_progress(_: int) -> None:
    """Ignore progress."""


def scan_text(file: LogFile, scratch_dir: Path, progress: Progress = no_progress) -> Scan:
    """Scan a text log, with bounded memory whatever its size.

    Raises LogFileError for a damaged gzip stream and for a file that changes while it is read.
    """
    before = file.path.stat()
    copy = _Copy(file.path, scratch_dir / f"{before.st_ino}.lines", always=file.compressed)
    lines = 0
    with file.path.open("rb") as raw, copy:
        source = _Hashing(raw, progress)
        compressed = cast(IO[bytes], source)
        text = _Ending(gzip.GzipFile(fileobj=compressed) if file.compressed else source)
        try:
            for block, readable in _blocks(text):
                lines += readable.count(b"\n") + (not readable.endswith(b"\n"))
                copy.write(block, readable)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise LogFileError(
                f"{file.path} is damaged: {error}; deliver the file again"
            ) from error
    ended, sha256 = text.last in (b"", b"\n"), source.digest.hexdigest()
    scan = Scan(before.st_size, sha256, lines, copy.readable, ended, before.st_mtime_ns)
    require_unchanged(file, scan)
    return scan


def require_unchanged(file: LogFile, scan: Scan) -> None:
    """Raise LogFileNotRead when a file is no longer the one that was scanned."""
    now = file.path.stat()
    if (scan.size_bytes, scan.modified) != (now.st_size, now.st_mtime_ns):
        raise LogFileNotRead(
            f"{file.path} changed while it was read; it is tried again when it is complete"
        )


def scan_file(file: LogFile, scratch_dir: Path, progress: Progress = no_progress) -> Scan:
    """Look at a file's bytes before anything parses them; lines of Parquet are in its footer."""
    if file.format != "parquet":
        return scan_text(file, scratch_dir, progress)
    modified = file.path.stat().st_mtime_ns
    with file.path.open("rb") as raw:
        source = _Hashing(raw, progress)
        source.drain()
    sha256 = source.digest.hexdigest()
    scan = Scan(source.size, sha256, -1, file.path, ended=True, modified=modified)
    require_unchanged(file, scan)
    return scan


class _Hashing:
    """A binary stream that hashes what is read through it."""

    def __init__(self, raw: IO[bytes], progress: Progress) -> None:
        self._raw = raw
        self._progress = progress
        self.size = 0
        self.digest = hashlib.sha256()

    def read(self, n: int = -1) -> bytes:
        data = self._raw.read(n)
        self.digest.update(data)
        self.size += len(data)
        self._progress(len(data))
        return data

    def drain(self) -> None:
        """Hash all that is left."""
        while self.read(MAX_LINE_BYTES):
            pass


class _Readable(Protocol):
    def read(self, n: int, /) -> bytes: ...


@dataclass
class _Ending:
    """A stream that remembers the last byte that was read through it."""

    stream: _Readable
    last: bytes = b""

    def read(self, n: int, /) -> bytes:
        data = self.stream.read(n)
        self.last = data[-1:] or self.last
        return data


@dataclass
class _Copy:
    """The readable text: the source itself until a block differs, then a scratch file."""

    source: Path
    target: Path
    always: bool
    _out: IO[bytes] | None = None
    _same_bytes: int = field(default=0)

    @property
    def readable(self) -> Path:
        return self.target if self.always else self.source

    def __enter__(self) -> "_Copy":
        if self.always:
            self._out = self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._out is not None:
            self._out.close()

    def write(self, block: bytes | None, readable: bytes) -> None:
        if self._out is None:
            if readable is block:
                self._same_bytes += len(readable)
                return
            self.always = True
            self._out = self._open()
            self._copy_beginning(self._out)
        self._out.write(readable)

    def _open(self) -> IO[bytes]:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        return self.target.open("wb")

    def _copy_beginning(self, out: IO[bytes]) -> None:
        with self.source.open("rb") as begin:
            left = self._same_bytes
            while left and (data := begin.read(min(left, MAX_LINE_BYTES))):
                out.write(data)
                left -= len(data)


def _blocks(stream: _Readable) -> Iterator[tuple[bytes | None, bytes]]:
    """Whole lines in blocks of about MAX_LINE_BYTES: the source's bytes and their readable form.

    The source is None for an over-long line, which is cut and marked without being kept.
    """
    rest, skipping = b"", False
    while chunk := stream.read(MAX_LINE_BYTES):
        if skipping:
            newline = chunk.find(b"\n")
            if newline < 0:
                continue
            chunk, skipping = chunk[newline + 1 :], False
        cut = chunk.rfind(b"\n") + 1
        block, rest = (rest + chunk[:cut], chunk[cut:]) if cut else (b"", rest + chunk)
        # Only the first line can be longer than a chunk: it began in an earlier one.
        first = block.find(b"\n")
        if first > MAX_LINE_BYTES:
            yield None, _marked(block[:first], "line is too long")
            block = block[first + 1 :]
        if block:
            yield block, _readable(block)
        if len(rest) > MAX_LINE_BYTES:
            yield None, _marked(rest, "line is too long")
            rest, skipping = b"", True
    if rest:
        yield rest, _readable(rest)


def _readable(block: bytes) -> bytes:
    """The block itself when every line is readable, else with unreadable lines marked."""
    if _is_plain(block):
        return block
    unix = block.replace(b"\r\n", b"\n")
    if _is_plain(unix):
        return unix
    text = unix.decode("utf-8", errors="surrogateescape")
    return _UNREADABLE.sub(_mark_match, text).encode()


def _is_plain(block: bytes) -> bool:
    """True for UTF-8 without control characters other than newline and tab."""
    controls = np.count_nonzero(np.frombuffer(block, np.uint8) < _FIRST_PRINTABLE)
    if controls != block.count(b"\n") and controls != block.count(b"\n") + block.count(b"\t"):
        return False
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _mark_match(match: re.Match[str]) -> str:
    line = match.group()
    reason = "not UTF-8" if re.search(r"[\udc80-\udcff]", line) else "control character"
    return _marked(line.encode("utf-8", errors="surrogateescape"), reason).decode()[:-1]


def _marked(line: bytes, reason: str) -> bytes:
    r"""A line of MARK, reason, MARK, excerpt: unreadable characters are shown as \x00."""
    text = line[: 4 * QUARANTINED_CHARACTERS].decode("utf-8", errors="backslashreplace")
    shown = re.sub(r"[\x00-\x1f]", lambda m: f"\\x{ord(m.group()):02x}", text)
    return f"{MARK}{reason}{MARK}{shown[:QUARANTINED_CHARACTERS]}\n".encode()
