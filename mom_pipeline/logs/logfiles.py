"""Names of log files: which file is a log, of which day, in which format."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path, PurePosixPath

from mom_pipeline.errors import LogFileError
from mom_pipeline.settings import Settings

# Suffix -> format, longest first, so that `.csv.gz` is not taken for `.gz`.
FORMATS = {
    ".csv.gz": "csv",
    ".tsv.gz": "tsv",
    ".jsonl.gz": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
}
FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2199, 12, 31)
CHECKSUM_SUFFIX = ".sha256"
# Logs whose newest day is older have ended.
_GOES_ON = timedelta(days=60)
# File systems take 255; the names of checksum and temporary files are longer than the log's own.
_MAX_NAME_BYTES = 200
_SHOWN_CHARACTERS = 300
_DAY_IN_NAME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_. ].*)?")
_DAY_FOLDER = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_EXAMPLES = "2024-03-01.csv.gz or day=2024-03-01/part.parquet"


@dataclass(frozen=True, order=True)
class LogFile:
    """A log file: its stable name below `data/logs`, its delivery day and how to read it."""

    day: date
    source_file: str
    path: Path
    format: str
    compressed: bool

    @property
    def checksum_path(self) -> Path:
        """`<name>.sha256` beside the file, whether it exists or not."""
        return self.path.with_name(self.path.name + CHECKSUM_SUFFIX)


@dataclass(frozen=True, order=True)
class SetAside:
    """Something in the logs folder that is not read: its name in printable text, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Discovery:
    """What lies in the logs folder: log files in order of day, and what is not read."""

    files: tuple[LogFile, ...]
    set_aside: tuple[SetAside, ...]


def printable(text: str) -> str:
    r"""Text with control characters spelled out, and bytes that are not UTF-8 as in `\xff`."""

    def spelled_out(character: str) -> str:
        # Python keeps a byte of a file name that is not UTF-8 as U+DC00 + byte.
        is_byte = "\udc80" <= character <= "\udcff"
        return f"\\x{ord(character) - 0xDC00:02x}" if is_byte else ascii(character)[1:-1]

    return "".join(c if c.isprintable() else spelled_out(c) for c in text)


def _shown(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"


def discover(logs_dir: Path) -> Discovery:
    """All log files below a folder, ordered by day and name.

    Checksum files and names that start with "." or "_" are no logs. Whatever else cannot be
    read as a log is in `set_aside`, so that no name stops the others; so are files that differ
    only in format or compression, because they would bring the same events twice.
    """
    families: defaultdict[str, list[LogFile]] = defaultdict(list)
    set_aside: list[SetAside] = []
    for name in _names(logs_dir, set_aside):
        try:
            file = _file_in_folder(name, logs_dir)
            families[file.source_file.removesuffix(_suffix(file.source_file))].append(file)
        except (LogFileError, OSError) as error:
            set_aside.append(SetAside(_shown(name), str(error)))
    for family in families.values():
        for file in family if len(family) > 1 else ():
            others = ", ".join(sorted(other.source_file for other in family if other != file))
            reason = (
                f"it would bring the same events as {others}, from which its name differs only in "
                "the format; remove all of them but one"
            )
            set_aside.append(SetAside(file.source_file, reason))
    kept = sorted(family[0] for family in families.values() if len(family) == 1)
    return Discovery(tuple(kept), tuple(sorted(set_aside)))


def _names(logs_dir: Path, set_aside: list[SetAside]) -> Iterator[str]:
    """Names of everything but folders, no links followed; unreadable ones are set aside."""
    waiting = [""] if os.path.isdir(logs_dir) else []
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(logs_dir / folder) as entries:
                for entry in entries:
                    name = f"{folder}{entry.name}"
                    if entry.name[0] in "._":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/")
                    elif not name.endswith(CHECKSUM_SUFFIX):
                        yield name
        except OSError as error:
            reason = f"the folder cannot be read ({error.strerror}); allow it, or move its files"
            set_aside.append(SetAside(_shown(folder) or ".", reason))


def _file_in_folder(name: str, logs_dir: Path) -> LogFile:
    """Read day and format from a name; raises LogFileError with the reason against it."""
    path, relative = logs_dir / name, PurePosixPath(name)
    if os.path.islink(path):
        relative = _target_of(path, logs_dir)
    elif not os.path.isfile(path):
        raise LogFileError("expected a regular file that can be read; replace or remove it")
    if not str(relative).isprintable():
        raise LogFileError("expected a name of printable UTF-8 characters; rename it")
    n_bytes, suffix = len(relative.name.encode()), _suffix(relative.name)
    if n_bytes > _MAX_NAME_BYTES:
        raise LogFileError(
            f"the name has {n_bytes} bytes, expected at most {_MAX_NAME_BYTES}; shorten it"
        )
    if not suffix:
        raise LogFileError(
            f"it is not a log file: expected a name that ends with one of {', '.join(FORMATS)}; "
            "rename it or move it elsewhere"
        )
    stem = relative.name.removesuffix(suffix)
    match = _DAY_FOLDER.fullmatch(relative.parent.name) or _DAY_IN_NAME.fullmatch(stem)
    try:
        day = date.fromisoformat(match[1] if match else "")
    except ValueError:
        raise LogFileError(
            f"the name states no delivery day: expected one such as {_EXAMPLES}; rename it"
        ) from None
    if not FIRST_DAY <= day <= LAST_DAY:
        raise LogFileError(
            f"the delivery day {day} does not lie from {FIRST_DAY} to {LAST_DAY}; rename it"
        )
    return LogFile(day, str(relative), path, FORMATS[suffix], suffix.endswith(".gz"))


def _target_of(link: Path, logs_dir: Path) -> PurePosixPath:
    """What a link inside the folder stands for: a file of the folder that is not read itself."""
    if not os.path.exists(link):
        raise LogFileError("the link leads nowhere; put the file itself here, or remove the link")
    target = link.resolve()
    if not target.is_relative_to(logs_dir.resolve()):
        raise LogFileError("the link leads out of the folder; copy the file itself here")
    if not target.is_file():
        raise LogFileError("the link leads to no regular file; put the files themselves here")
    relative = PurePosixPath(target.relative_to(logs_dir.resolve()))
    if not any(part[0] in "._" for part in relative.parts):
        raise LogFileError(f"the link leads to {_shown(str(relative))}, which is read itself")
    return relative


def _suffix(name: str) -> str:
    return next((suffix for suffix in FORMATS if name.endswith(suffix)), "")


def last_day(settings: Settings, files: Sequence[LogFile]) -> date:
    """Return the newest day that can be computed: of logs that ended, that of their newest file."""
    _, last = settings.first_and_last_day()
    newest = max((file.day for file in files), default=last)
    return newest if not settings.pipeline.end_date and newest < last - _GOES_ON else last
