"""From a log file to events: physical lines, then fields, all inside DuckDB.

Every format becomes `staged_lines`, one row per physical line (Parquet: one JSON object per
row), and then a SELECT that takes the fields out of a line, with a reason where it cannot.
"""

import csv
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.logs.scan import MARK, MAX_LINE_BYTES
from mom_pipeline.settings import DELIMITERS, ColumnSettings, LogSettings
from mom_pipeline.warehouse.connection import Connection, literal_path, load_sql, scalar
from mom_pipeline.warehouse.erased import ErasedUsers

SET_ASIDE_PREFIX = "set aside: "
ERASED = f"{SET_ASIDE_PREFIX}erased"
NOT_UNDERSTOOD = "timestamp not understood"
# A word of a malformed line, for which the format tells no fields.
WORD = r"""[^\s,;|"'{}\[\]:]+"""
QUOTES_BROKEN = "contains(text, '\"') AND NOT regexp_full_match($delimiter || text, $record)"
_EARLIEST = "1900-01-01 00:00:00+00"
# A number in decimal notation, also with an exponent, and no other that DuckDB would cast: 1_000.
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_MAX_WEIGHT = 1_000_000_000
_ID_TYPES = re.compile(r"VARCHAR|UUID|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")
_TIME_TYPES = re.compile(r"VARCHAR|DATE|TIMESTAMP.*|U?BIGINT|U?INTEGER")
_WEIGHT_TYPES = re.compile(r"VARCHAR|DECIMAL.*|DOUBLE|FLOAT|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER")

# Timestamp setting -> expression over `time_text`, and the pattern of what it may read. DuckDB
# casts more than that: 2024/03/01, 24:00:00, "epoch", 1_709_287_200.
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9](?::[0-5][0-9])?)?)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[ T]{_CLOCK}{_OFFSET}?)?"
_EPOCH = r"-?[0-9]+(?:\.[0-9]+)?"
_WIDE = "TRY_CAST(time_text AS DECIMAL({}, {}))::DECIMAL(28, 6)"  # no product overflows it
_EVENT_TIME = {
    "iso": ("TRY_CAST(time_text AS TIMESTAMPTZ)", _ISO),
    "epoch_s": (f"make_timestamptz((1000000 * {_WIDE.format(16, 6)})::BIGINT)", _EPOCH),
    "epoch_ms": (f"make_timestamptz((1000 * {_WIDE.format(18, 3)})::BIGINT)", _EPOCH),
}
_PATTERN_TIME = """
    CASE WHEN lower(trim(time_text)) NOT IN ('epoch', 'infinity', '-infinity')
        AND regexp_matches(time_text, $time_end)
    THEN try_strptime(time_text, $time_pattern)::TIMESTAMPTZ END
"""


@dataclass(frozen=True)
class EventQuery:
    """`WITH … events AS (line, text, user_id, item_id, event_time, weight, reason)` and values."""

    with_clause: str
    parameters: dict[str, object]


def stage_text(connection: Connection, readable: Path) -> int:
    """Fill `staged_lines` from a scanned text file; the number of lines that DuckDB read."""
    connection.execute(load_sql("logs/read_lines.sql"), {"path": literal_path(readable)})
    return scalar(connection, "SELECT count(*) FROM staged_lines")


def stage_parquet(connection: Connection, file: LogFile, columns: ColumnSettings) -> int:
    """Fill `staged_lines` with one JSON object per Parquet row; the rows that its footer states.

    Raises LogFileError for a missing column or one whose type cannot carry it exactly.
    """
    path = {"path": literal_path(file.path)}
    described = connection.execute(
        "DESCRIBE SELECT * FROM read_parquet($path, hive_partitioning = false)", path
    ).fetchall()
    types = {str(row[0]): str(row[1]) for row in described}
    _require_columns(file, columns, list(types))
    _require_types(file, columns, types)
    # The names are columns of this very file, and settings admit none with a quote in it.
    texts = ", ".join(f'"{name}"::VARCHAR AS "{name}"' for name in _mapped(columns).values())
    # One JSON object of texts per row, so that Parquet takes the way of JSON Lines.
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE staged_lines AS SELECT to_json(events)::VARCHAR AS text "  # noqa: S608
        f"FROM (SELECT {texts} FROM read_parquet($path, hive_partitioning = false)) AS events",
        path,
    )
    return scalar(connection, "SELECT sum(num_rows) FROM parquet_file_metadata($path)", path)


def event_query(
    file: LogFile, readable: Path, logs: LogSettings, erased: ErasedUsers
) -> EventQuery:
    """The query that turns `staged_lines` into checked events."""
    if file.format in ("csv", "tsv"):
        delimiter = "\t" if file.format == "tsv" else logs.delimiter
        fields, parameters = _delimited_fields(file, readable, delimiter, logs.columns)
    else:
        fields, parameters = _json_fields(logs.columns)
    event_time, time_parameters = event_time_sql(logs.timestamp_format)
    is_erased = load_sql("logs/is_erased.sql") if erased.hashes else "false"
    checks = _fill(
        load_sql("logs/check_events.sql"), {"event_time": event_time, "is_erased": is_erased}
    )
    if erased.hashes:
        parameters |= {"salt": erased.salt, "erased_users": list(erased.hashes), "a_word": WORD}
    parameters |= time_parameters | {
        "set_aside_prefix": SET_ASIDE_PREFIX,
        "erased_reason": ERASED,
        "max_id": MAX_ID,
        "earliest": _EARLIEST,
        "day_end": _end_of(file.day, logs.zone),
        "number": _NUMBER,
        "max_weight": _MAX_WEIGHT,
        "mark": MARK,
    }
    return EventQuery(f"WITH fields AS ({fields})\n{checks}", parameters)


def _end_of(day: date, zone: ZoneInfo) -> str:
    """The first moment after a delivery day, in the zone of the logs."""
    return datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC).isoformat()


def header_lines(file: LogFile) -> int:
    return 1 if file.format in ("csv", "tsv") else 0


def _mapped(columns: ColumnSettings) -> dict[str, str]:
    """Role -> column name, for the roles that are in use."""
    roles = ("user", "item", "timestamp", "weight", "exclude")
    return {role: getattr(columns, role) for role in roles if getattr(columns, role)}


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


def _require_types(file: LogFile, columns: ColumnSettings, types: dict[str, str]) -> None:
    allowed = {"timestamp": _TIME_TYPES, "weight": _WEIGHT_TYPES, "exclude": re.compile("VARCHAR")}
    for role, name in _mapped(columns).items():
        if not allowed.get(role, _ID_TYPES).fullmatch(types[name]):
            raise LogFileError(
                f"{file.path}: column {name!r} has type {types[name]}, which cannot be read "
                f"exactly as a {role}; write it as text"
            )


def _delimited_fields(
    file: LogFile, readable: Path, delimiter: str, columns: ColumnSettings
) -> tuple[str, dict[str, object]]:
    """Fields of CSV (quotes as in RFC 4180, within one line) or TSV (no quotes)."""
    header = _header(file, readable, delimiter)
    _require_columns(file, columns, header)
    parameters: dict[str, object] = {"delimiter": delimiter, "n_fields": len(header)}
    for role, name in _mapped(columns).items():
        parameters[f"{role}_at"] = header.index(name) + 1
    if file.format == "tsv":
        split, quotes_broken = "string_split(text, $delimiter)", "false"
    else:
        split, quotes_broken = load_sql("logs/split_csv.sql"), QUOTES_BROKEN
        parameters |= quote_patterns(delimiter)
    fragments = {
        "quotes_broken": quotes_broken,
        "split": split,
        "weight": "f[$weight_at]" if columns.weight else "'1'",
        "excluded": "f[$exclude_at]" if columns.exclude else "''",
    }
    return _fill(load_sql("logs/delimited_fields.sql"), fragments), parameters


def quote_patterns(delimiter: str) -> dict[str, object]:
    """Patterns of a CSV field and record (RFC 4180, within one line), for split_csv.sql."""
    a_field = rf'{re.escape(delimiter)}("(?:[^"]|"")*"|[^"{re.escape(delimiter)}]*)'
    return {"field": a_field, "record": f"(?:{a_field})+"}


def event_time_sql(timestamp_format: str) -> tuple[str, dict[str, object]]:
    """Expression from `time_text` to a TIMESTAMPTZ, NULL where it is not understood."""
    if timestamp_format in _EVENT_TIME:
        expression, form = _EVENT_TIME[timestamp_format]
        sql = f"CASE WHEN regexp_full_match(time_text, $time_form) THEN {expression} END"
        return sql, {"time_form": form}
    end = f"{_OFFSET}$" if timestamp_format.endswith("%z") else ""
    return _PATTERN_TIME, {"time_pattern": timestamp_format, "time_end": end}


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


def _json_fields(columns: ColumnSettings) -> tuple[str, dict[str, object]]:
    """Fields of JSON objects; ids are strings or whole numbers, kept digit by digit."""
    mapped = _mapped(columns)
    parameters: dict[str, object] = {f"{role}_at": f'$."{name}"' for role, name in mapped.items()}
    parameters["mapped"] = list(mapped.values())
    parameters["n_required"] = len(mapped.keys() - {"exclude"})
    excluded = "coalesce(json_extract_string(object, $exclude_at), '')"
    fragments = {
        "weight": "json_extract_string(object, $weight_at)" if columns.weight else "'1'",
        "excluded": excluded if columns.exclude else "''",
    }
    return _fill(load_sql("logs/json_fields.sql"), fragments), parameters


def _fill(sql: str, fragments: dict[str, str]) -> str:
    """Put fixed SQL fragments at their {names}; values never come this way."""
    for name, fragment in fragments.items():
        sql = sql.replace(f"{{{name}}}", fragment)
    return sql
