"""One look at the bytes of a log file before it is parsed: its sha256, its lines, a readable text.

Why not DuckDB's CSV reader with `store_rejects` (measured with DuckDB 2.0): an unterminated quote
takes the good lines after it along (5 lines: 1 read, 1 rejected, 3 gone); empty lines and a line of
40 MB vanish without a reject; one CRLF among newlines ends the file with an error; a quoted line
break renumbers what follows; and accepted rows carry no line number. So lines are counted here,
independently of the parser, and a line that no parser could read is replaced by a marked one that
says why. Files that need no replacement (nearly all) are read in place, others from a copy.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import LogFileError, LogFileNotRead
from mom_pipeline.logs.logfiles import LogFile

MAX_LINE_BYTES = 1 << 20
# How many times its size a file may unpack to, beyond what does no harm.
_MOST_UNPACKED, _ALWAYS_UNPACKED = 100, 1 << 28
QUARANTINED_CHARACTERS = 2000
# Control characters never survive the scan, so a line that starts with this one is ours.
MARK = "\x02"
_FIRST_PRINTABLE = 0x20
_UNREADABLE = re.compile(r"[^\n]*[\x00-\x08\x0b-\x1f\udc80-\udcff][^\n]*")
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Scan:
    """What was seen of a file."""

    size_bytes: int
    sha256: str
    lines: int  # physical ones; -1 for Parquet, which states its rows itself
    readable: Path  # the file itself or its copy
    ended: bool  # the last line has its line end, as in every file that is whole
    modified: int  # when the file was changed last, in nanoseconds


def scan_file(file: LogFile, scratch: Path, progress: Progress = lambda n_bytes: None) -> Scan:
    """Scan a file in bounded memory; LogFileError for damage, LogFileNotRead while it changes."""
    scratch.mkdir(parents=True, exist_ok=True)
    status, lines, readable, ended = file.path.stat(), -1, file.path, True
    sha256 = sha256_of(file.path)
    if file.format == "parquet":
        progress(status.st_size)
    else:
        try:
            lines, readable, ended = _scan_text(file, scratch / f"{status.st_ino}.lines", progress)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise LogFileError(
                f"{file.path} is damaged: {error}; deliver the file again"
            ) from error
    scan = Scan(status.st_size, sha256, lines, readable, ended, status.st_mtime_ns)
    require_unchanged(file, scan)
    return scan


def require_ratio(path: Path, packed: int, unpacked: int) -> None:
    """Raise LogFileError for a file of bytes, or rows, that unpack to what would fill the disk."""
    if unpacked > max(_ALWAYS_UNPACKED, _MOST_UNPACKED * packed):
        raise LogFileError(
            f"{path} unpacks to more than {_MOST_UNPACKED} times its {packed:,} bytes, as no log "
            "does, and is not read; deliver it unpacked if it is one"
        )


def require_unchanged(file: LogFile, scan: Scan) -> None:
    """Raise LogFileNotRead when a file is no longer the one that was scanned."""
    now = file.path.stat()
    if (scan.size_bytes, scan.modified) != (now.st_size, now.st_mtime_ns):
        raise LogFileNotRead(
            f"{file.path} changed while it was read; it is tried again when it is complete"
        )


def _scan_text(file: LogFile, copy: Path, progress: Progress) -> tuple[int, Path, bool]:
    """Return the number of lines, the text to read, and whether the last line has its end."""
    lines, same_bytes, ended = 0, 0, True
    with ExitStack() as opened:
        raw = opened.enter_context(file.path.open("rb"))
        out: IO[bytes] | None = None
        if file.compressed:
            out = opened.enter_context(copy.open("wb"))
        for block in _blocks(_chunks(raw, file.compressed, progress)):
            readable = _readable(block)
            if out is None and readable != block:
                out = opened.enter_context(copy.open("wb"))
                _copy_beginning(file.path, same_bytes, out)
            if out is None:
                same_bytes += len(block)
            else:
                out.write(readable)
            lines += readable.count(b"\n") + (not readable.endswith(b"\n"))
            ended = block.endswith(b"\n")
    return lines, file.path if out is None else copy, ended


def _copy_beginning(source: Path, n_bytes: int, out: IO[bytes]) -> None:
    with source.open("rb") as begin:
        while n_bytes and (data := begin.read(min(n_bytes, MAX_LINE_BYTES))):
            out.write(data)
            n_bytes -= len(data)


def _chunks(raw: IO[bytes], compressed: bool, progress: Progress) -> Iterator[bytes]:
    """The text in pieces of MAX_LINE_BYTES."""
    text = gzip.GzipFile(fileobj=raw) if compressed else raw
    position = 0
    while chunk := text.read(MAX_LINE_BYTES):
        progress(raw.tell() - position)
        position = raw.tell()
        if compressed:
            require_ratio(Path(raw.name), position, text.tell())
        yield chunk


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, many at a time; a line that is too long is a block of its own, cut."""
    rest = b""
    for chunk in chunks:
        head, newline, tail = chunk.partition(b"\n")
        # Only this line can be longer than a chunk: it began in an earlier one.
        line = (rest + head)[: MAX_LINE_BYTES + 1]
        if not newline:
            rest = line
            continue
        cut = tail.rfind(b"\n") + 1
        lines, rest = tail[:cut], tail[cut:]
        if len(line) > MAX_LINE_BYTES:
            yield line + newline
        else:
            lines = line + newline + lines
        if lines:
            yield lines
    if rest:
        yield rest


def _readable(block: bytes) -> bytes:
    """The block itself when every line is readable, else with unreadable lines marked."""
    if len(block) > MAX_LINE_BYTES and b"\n" not in block[: MAX_LINE_BYTES + 1]:
        begin = block[: 4 * QUARANTINED_CHARACTERS].decode("utf-8", errors="surrogateescape")
        return f"{_marked(begin, 'line is too long')}\n".encode()
    unix = block.replace(b"\r\n", b"\n")
    for text in (block, unix):
        if _is_plain(text):
            return text
    lines = unix.decode("utf-8", errors="surrogateescape")
    return _UNREADABLE.sub(lambda match: _marked(match.group()), lines).encode()


def _is_plain(block: bytes) -> bool:
    """True for UTF-8 without control characters other than newline and tab."""
    controls = np.count_nonzero(np.frombuffer(block, np.uint8) < _FIRST_PRINTABLE)
    if controls != block.count(b"\n") and controls != block.count(b"\n") + block.count(b"\t"):
        return False
    try:
        return block.isascii() or bool(block.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _marked(line: str, reason: str = "") -> str:
    r"""A line of MARK, reason, MARK, excerpt: unreadable characters are shown as \x00."""
    if not reason:
        reason = "not UTF-8" if _NOT_UTF8.search(line) else "control character"
    begin = line[: 4 * QUARANTINED_CHARACTERS].removesuffix("\n")
    text = begin.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = re.sub(r"[\x00-\x1f]", lambda m: f"\\x{ord(m.group()):02x}", text)
    return f"{MARK}{reason}{MARK}{shown[:QUARANTINED_CHARACTERS]}"
