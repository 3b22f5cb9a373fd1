"""Adapters of delimited files: the SELECT from lines to events."""

import csv
import gzip
from pathlib import Path

from mom_pipeline.datasets.importing import RawFile
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import QUOTES_BROKEN, quote_patterns
from mom_pipeline.logs.scan import MAX_LINE_BYTES
from mom_pipeline.warehouse.connection import load_sql


def delimited_file(
    path: Path,
    delimiter: str,
    n_fields: int,
    *,
    time: str,
    user: str,
    item: str,
    weight: str = "'1'",
    exclude: str = "''",
    header_lines: int = 1,
    time_format: str = "%Y-%m-%dT%H:%M:%S",
    parameters: dict[str, object] | None = None,
) -> RawFile:
    """A file whose event is an expression over the list `f` of a line's fields.

    time: a TIMESTAMP (local) or TIMESTAMPTZ, NULL for a line that is not in the format.
    """
    fragments = {
        "split": load_sql("logs/split_csv.sql"),
        "quotes_broken": QUOTES_BROKEN,
        "time": time,
        "user": user,
        "item": item,
        "weight": weight,
        "exclude": exclude,
        "header_lines": str(header_lines),
    }
    select = load_sql("datasets/delimited.sql")
    for name, fragment in fragments.items():
        select = select.replace(f"{{{name}}}", fragment)
    values: dict[str, object] = {
        "delimiter": delimiter,
        "n_fields": n_fields,
        "time_format": time_format,
    }
    values |= quote_patterns(delimiter) | (parameters or {})
    return RawFile(path, select, other_lines=f"rowid < {header_lines}", parameters=values)


def read_header(path: Path, delimiter: str, encoding: str = "utf-8-sig") -> list[str]:
    """The names in the first line of a file, plain or gzip."""
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the path of the published file")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            first = stream.readline(MAX_LINE_BYTES)
        text = first.decode(encoding).rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return next(csv.reader([text], delimiter=delimiter), [])


def require_header(path: Path, expected: list[str], delimiter: str = ",") -> None:
    """Raise DatasetError unless the header is exactly the published one."""
    found = read_header(path, delimiter)
    if found != expected:
        raise DatasetError(
            f"{path} must begin with the header {delimiter.join(expected)!r}, found "
            f"{delimiter.join(found)[:200]!r}; give the published file"
        )
