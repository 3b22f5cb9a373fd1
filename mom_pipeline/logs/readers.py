"""From a file to events: physical lines, then fields, all inside DuckDB.

Every format becomes `staged_lines`, one row per physical line (Parquet: one JSON object per row),
and then a SELECT that takes the fields out of a line, with a reason where it cannot. Log files and
imports are read by the same ones.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.logs.scan import MARK, MAX_LINE_BYTES
from mom_pipeline.logs.time_formats import event_time_sql
from mom_pipeline.settings import DELIMITERS, ColumnSettings, LogSettings
from mom_pipeline.warehouse.connection import Connection, literal_path, load_sql, scalar
from mom_pipeline.warehouse.erased import ErasedUsers

SET_ASIDE_PREFIX = "set aside: "
ERASED = f"{SET_ASIDE_PREFIX}erased"
NOT_UNDERSTOOD = "timestamp not understood"
# A word of a malformed line, for which the format tells no fields.
WORD = r"""[^\s,;|"'{}\[\]:]+"""
_EARLIEST = "1900-01-01 00:00:00+00"
# A number in decimal notation, also with an exponent, and no other that DuckDB would cast: 1_000.
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_MAX_WEIGHT = 1_000_000_000
_NUMBERS = r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER"
# Types of Parquet that carry a role exactly.
_TYPES = {
    "user": rf"VARCHAR|UUID|{_NUMBERS}",
    "item": rf"VARCHAR|UUID|{_NUMBERS}",
    "timestamp": r"VARCHAR|DATE|TIMESTAMP.*|U?BIGINT|U?INTEGER",
    "weight": rf"VARCHAR|DECIMAL.*|DOUBLE|FLOAT|{_NUMBERS}",
    "exclude": "VARCHAR",
}


@dataclass(frozen=True)
class Query:
    """SQL and the values of its parameters."""

    sql: str
    parameters: dict[str, object]


def stage_text(connection: Connection, readable: Path) -> int:
    """Fill `staged_lines` from a scanned text file; the number of lines that DuckDB read."""
    connection.execute(load_sql("logs/read_lines.sql"), {"path": literal_path(readable)})
    return scalar(connection, "SELECT count(*) FROM staged_lines")


def stage_parquet(connection: Connection, path: Path, texts: Mapping[str, str]) -> int:
    """Fill `staged_lines` with a JSON object per Parquet row; the rows that its footer states.

    texts: expressions of columns as text, by name; no name may hold a quote.
    """
    columns = ", ".join(f'{text} AS "{name}"' for name, text in texts.items())
    file = {"path": literal_path(path)}
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE staged_lines AS SELECT to_json(r)::VARCHAR AS text "  # noqa: S608
        f"FROM (SELECT {columns} FROM read_parquet($path, hive_partitioning = false)) AS r",
        file,
    )
    return scalar(connection, "SELECT sum(num_rows) FROM parquet_file_metadata($path)", file)


def parquet_types(connection: Connection, path: Path) -> dict[str, str]:
    """Return the columns of a Parquet file with their types."""
    rows = connection.execute(
        "DESCRIBE SELECT * FROM read_parquet($path, hive_partitioning = false)",
        {"path": literal_path(path)},
    ).fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def delimited_fields(
    delimiter: str, n_fields: int, *, header_lines: int = 1, quoted: bool = True
) -> Query:
    """SELECT line, text, format_problem, f: the fields of every line of delimited text."""
    a_field = rf'{re.escape(delimiter)}("(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    parameters: dict[str, object] = {
        "delimiter": delimiter,
        "n_fields": n_fields,
        "header_lines": header_lines,
        "quoted": quoted,
        "field": a_field,
        "record": f"(?:{a_field})+",
        "mark": MARK,
    }
    return Query(load_sql("logs/delimited_fields.sql"), parameters)


def json_fields(names: Sequence[str], n_required: int, *, exact_ids: bool) -> Query:
    """SELECT line, text, format_problem, f: the values of some keys, user and item first.

    exact_ids: a number with a fraction is no id.
    """
    parameters: dict[str, object] = {
        "names": list(names),
        "paths": [f'$."{name}"' for name in names],
        "n_required": n_required,
        "exact_ids": exact_ids,
        "mark": MARK,
    }
    return Query(load_sql("logs/json_fields.sql"), parameters)


def stage_log_parquet(connection: Connection, file: LogFile, columns: ColumnSettings) -> int:
    """Stage a Parquet log; LogFileError for a column that is missing or of another type."""
    types, wanted = parquet_types(connection, file.path), _mapped(columns)
    _require_columns(file, columns, list(types))
    for role, name in wanted.items():
        if not re.fullmatch(_TYPES[role], types[name]):
            raise LogFileError(
                f"{file.path}: column {name!r} has type {types[name]}, which cannot be read "
                f"exactly as a {role}; write it as text"
            )
    # The names are columns of this very file, and settings admit none with a quote in it.
    texts = {name: f'"{name}"::VARCHAR' for name in wanted.values()}
    return stage_parquet(connection, file.path, texts)


def event_query(file: LogFile, readable: Path, logs: LogSettings, erased: ErasedUsers) -> Query:
    """`WITH … events AS (line, text, user_id, item_id, event_time, weight, reason)`."""
    fields, at = _fields_of(file, readable, logs)
    event_time, time_parameters = event_time_sql(logs.timestamp_format)
    fragments = {
        "fields": fields.sql,
        "event_time": event_time,
        "is_erased": load_sql("logs/is_erased.sql") if erased.hashes else "false",
        "weight": "'1'",
        "exclude": "''",
        **{role: f"f[{number}]" for role, number in at.items()},
    }
    parameters = fields.parameters | time_parameters
    if erased.hashes:
        parameters |= {"salt": erased.salt, "erased_users": list(erased.hashes), "a_word": WORD}
    parameters |= {
        "set_aside_prefix": SET_ASIDE_PREFIX,
        "erased_reason": ERASED,
        "max_id": MAX_ID,
        "earliest": _EARLIEST,
        "day_end": _end_of(file.day, logs.zone),
        "number": _NUMBER,
        "max_weight": _MAX_WEIGHT,
    }
    return Query(filled(load_sql("logs/check_events.sql"), fragments), parameters)


def _fields_of(file: LogFile, readable: Path, logs: LogSettings) -> tuple[Query, dict[str, int]]:
    """Return the SELECT of a log's fields, and which of them, from 1 on, has a role."""
    wanted = _mapped(logs.columns)
    if not header_lines(file):
        required = len(wanted.keys() - {"exclude"})
        names = list(wanted.values())
        return json_fields(names, required, exact_ids=True), _numbered(list(wanted))
    delimiter = "\t" if file.format == "tsv" else logs.delimiter
    header = _header(file, readable, delimiter)
    _require_columns(file, logs.columns, header)
    fields = delimited_fields(delimiter, len(header), quoted=file.format == "csv")
    return fields, {role: header.index(name) + 1 for role, name in wanted.items()}


def _numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names, start=1)}


def _end_of(day: date, zone: ZoneInfo) -> str:
    """The first moment after a delivery day, in the zone of the logs."""
    return datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC).isoformat()


def header_lines(file: LogFile) -> int:
    return 1 if file.format in ("csv", "tsv") else 0


def _mapped(columns: ColumnSettings) -> dict[str, str]:
    """Role -> column name, for the roles that are in use."""
    return {role: getattr(columns, role) for role in _TYPES if getattr(columns, role)}


def _require_columns(file: LogFile, columns: ColumnSettings, header: list[str]) -> None:
    wanted = _mapped(columns)
    for role, name in wanted.items():
        if header.count(name) != 1:
            problem = "has no" if name not in header else "has more than one"
            raise LogFileError(
                f"{file.path} {problem} column {name!r} (logs.columns.{role}); expected "
                f"{list(wanted.values())}, found {_shown_names(header)}. "
                f"{_hint(header, list(wanted.values()))}"
            )


def _hint(header: list[str], wanted: list[str]) -> str:
    """Say what to correct: the separator, where another one would give the columns."""
    for delimiter in (*DELIMITERS, "\t"):
        names = {name.strip() for name in header[0].split(delimiter)} if len(header) == 1 else set()
        if set(wanted) <= names:
            remedy = "name it .tsv" if delimiter == "\t" else f"set logs.delimiter = {delimiter!r}"
            return f"Its fields are separated by {delimiter!r}: {remedy}"
    return "Correct the file's header or the setting"


def _shown_names(header: list[str]) -> list[str]:
    """The names of a header; without one, the first line holds ids, which are not repeated."""
    is_name = re.compile(r"[^\W\d][^\W\d _-]*(?:[ _-][^\W\d]+)*")
    return [name[:80] if is_name.fullmatch(name) else "…" for name in header[:20]]


def _header(file: LogFile, readable: Path, delimiter: str) -> list[str]:
    with readable.open("rb") as stream:
        first = stream.readline(MAX_LINE_BYTES + 1)
    text = first.decode("utf-8-sig").rstrip("\n")
    if text.startswith(MARK):
        _, reason, shown = text.split(MARK, 2)
        raise LogFileError(f"{file.path}: the header is unreadable ({reason}): {shown[:80]}")
    if not text:
        raise LogFileError(f"{file.path} has no header line; deliver the file again")
    if file.format == "tsv":
        return text.split(delimiter)
    return next(csv.reader([text], delimiter=delimiter))


def filled(sql: str, fragments: Mapping[str, str]) -> str:
    """Put SQL fragments of our own at their {names}; values never come this way."""
    for name, fragment in fragments.items():
        sql = sql.replace(f"{{{name}}}", fragment)
    return sql
