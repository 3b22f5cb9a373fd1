"""Names of log files: which file is a log, of which day, in which format."""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath

from mom_pipeline.errors import LogFileError

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
_DAY_IN_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[-_. ].*)?")
_DAY_FOLDER = re.compile(r"day=(\d{4}-\d{2}-\d{2})")
_EXPECTED = (
    "expected a name such as 2024-03-01.csv.gz or day=2024-03-01/part.parquet "
    f"with one of {', '.join(FORMATS)}"
)


@dataclass(frozen=True, order=True)
class LogFile:
    """A log file: its stable name below `data/logs`, its delivery day and how to read it."""

    day: date
    source_file: str
    path: Path
    format: str
    compressed: bool


def log_file(path: Path, logs_dir: Path) -> LogFile:
    """Describe one file below `logs_dir`.

    Raises LogFileError when it lies elsewhere, does not exist, or has no day or known format
    in its name.
    """
    if not path.is_file():
        raise LogFileError(f"{path} is not a file; expected a log file below {logs_dir}")
    try:
        relative = PurePosixPath(path.resolve().relative_to(logs_dir.resolve()))
    except ValueError:
        raise LogFileError(f"{path} lies outside of {logs_dir}; copy it there first") from None
    suffix = next((s for s in FORMATS if relative.name.endswith(s)), None)
    if suffix is None:
        raise LogFileError(f"{path} is not a log file: {_EXPECTED}")
    day = _delivery_day(relative, suffix)
    if day is None:
        raise LogFileError(f"{path} names no delivery day: {_EXPECTED}")
    return LogFile(day, str(relative), path, FORMATS[suffix], suffix.endswith(".gz"))


def _delivery_day(relative: PurePosixPath, suffix: str) -> date | None:
    """The day of `day=2024-03-01/` or of a name that starts with 2024-03-01."""
    stem = relative.name.removesuffix(suffix)
    match = _DAY_FOLDER.fullmatch(relative.parent.name) or _DAY_IN_NAME.fullmatch(stem)
    try:
        return date.fromisoformat(match.group(1)) if match else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Discovery:
    """What lies in the logs folder: log files in order of day, and what was not understood."""

    files: tuple[LogFile, ...]
    ignored: tuple[str, ...]


def discover(logs_dir: Path) -> Discovery:
    """All log files below a folder, ordered by day and name.

    Checksum files and names that start with "." or "_" are no logs; any other name that is not
    understood is reported in `ignored`. Raises LogFileError when two files differ only in
    format or compression: they would bring the same events twice.
    """
    files, ignored = [], []
    for path in sorted(logs_dir.rglob("*")) if logs_dir.is_dir() else []:
        relative = path.relative_to(logs_dir)
        if any(part[0] in "._" for part in relative.parts) or path.suffix == ".sha256":
            continue
        if not path.is_file():
            continue
        try:
            files.append(log_file(path, logs_dir))
        except LogFileError:
            ignored.append(str(relative))
    _refuse_twins(files)
    return Discovery(tuple(sorted(files)), tuple(ignored))


def _refuse_twins(files: list[LogFile]) -> None:
    seen: dict[str, LogFile] = {}
    for file in files:
        suffix = next(s for s in FORMATS if file.source_file.endswith(s))
        stem = file.source_file.removesuffix(suffix)
        if stem in seen:
            raise LogFileError(
                f"{seen[stem].source_file} and {file.source_file} differ only in format and "
                "would bring the same events twice; remove one of them"
            )
        seen[stem] = file
