"""From a file to events: physical lines, then fields, then times, all inside DuckDB.

Every format becomes `staged_lines`, one row per physical line (Parquet: one JSON object per row),
and then a SELECT that takes the fields out of a line, with a reason where it cannot.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb

from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.logs.scan import MARK, MAX_LINE_BYTES, Scan, require_ratio
from mom_pipeline.settings import DELIMITERS, ColumnSettings, LogSettings
from mom_pipeline.warehouse.connection import Connection, literal_path, load_sql, scalar
from mom_pipeline.warehouse.erased import ErasedUsers

SET_ASIDE_PREFIX = "set aside: "
ERASED = f"{SET_ASIDE_PREFIX}erased"
NOT_UNDERSTOOD = "timestamp not understood"
# A word of a malformed line, for which the format tells no fields.
_WORD = r"""[^\s,;|"'{}\[\]:]+"""
_EARLIEST = "1900-01-01 00:00:00+00"
# A number in decimal notation, also with an exponent, and no other that DuckDB would cast: 1_000.
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_MAX_WEIGHT = 1_000_000_000
# Lines that a record in quotes may go on over.
_MOST_LINES = 100
_WHOLE = r"U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER"
# Role of a column -> types of Parquet that carry it exactly.
_TYPES = {
    "user": rf"VARCHAR|UUID|{_WHOLE}",
    "item": rf"VARCHAR|UUID|{_WHOLE}",
    "timestamp": r"VARCHAR|DATE|TIMESTAMP.*|U?BIGINT|U?INTEGER",
    "weight": rf"VARCHAR|DECIMAL.*|DOUBLE|FLOAT|{_WHOLE}",
    "exclude": "VARCHAR",
    "event": "VARCHAR|ENUM.*",
}


@dataclass(frozen=True)
class Query:
    """SQL and the values of its parameters."""

    sql: str
    parameters: dict[str, object]


@dataclass(frozen=True)
class Layout:
    """How delimited text is laid out. n_used: fields up to the last one that is read."""

    delimiter: str
    n_fields: int
    n_used: int
    header_lines: int = 1
    quoted: bool = True

    @property
    def parameters(self) -> dict[str, object]:
        """Values for the queries that take a line apart."""
        mark = re.escape(self.delimiter)
        a_field = rf'{mark}("(?:[^"]|"")*"|[^"{mark}]*)'
        values = {k: v for k, v in vars(self).items() if k != "header_lines"}
        return {**values, "field": a_field, "record": f"(?:{a_field})+", "mark": MARK}


def stage_log(
    connection: Connection, file: LogFile, scan: Scan, logs: LogSettings, erased: ErasedUsers
) -> tuple[int, Query]:
    """Fill `staged_lines` from a log; return the number of lines, and the query of its events."""
    wanted = _mapped(logs.columns)
    names, layout, texts = list(wanted.values()), None, dict[str, str]()
    columns = {role: number for number, role in enumerate(wanted, start=1)}
    fields = json_fields(names, len(wanted.keys() - {"exclude"}), exact_ids=True)
    if file.format == "parquet":
        types = parquet_types(connection, file.path)
        _require_columns(file, wanted, list(types))
        require_exact(str(file.path), logs.columns, types)
        # Settings admit no name with a quote in it.
        texts = {name: f'"{name}"::VARCHAR' for name in names}
    elif file.format != "jsonl":
        delimiter = "\t" if file.format == "tsv" else logs.delimiter
        header = _header(file, scan.readable, delimiter)
        _require_columns(file, wanted, header)
        columns = {role: header.index(name) + 1 for role, name in wanted.items()}
        used, quoted = max(columns.values()), file.format == "csv"
        layout = Layout(delimiter, len(header), used, quoted=quoted)
        fields = delimited_fields(layout)
    lines = stage_lines(connection, file, scan, texts, layout)
    return lines, _event_query(file, logs, erased, fields, columns)


def stage_lines(
    connection: Connection,
    file: LogFile,
    scan: Scan,
    texts: Mapping[str, str],
    layout: Layout | None = None,
) -> int:
    """Fill `staged_lines`; return the physical lines, counted independently of the parser.

    The text of a line that carries no row is NULL: headers, blank lines, and those that a record
    in quotes goes on over.
    texts: of Parquet, expressions of columns as text, by name; no name may hold a quote.
    """
    path = {"path": literal_path(scan.readable)}
    if file.format == "parquet":
        columns = ", ".join(f'{text} AS "{name}"' for name, text in texts.items())
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE staged_lines AS SELECT to_json(r)::VARCHAR AS text "  # noqa: S608
            f"FROM (SELECT {columns} FROM read_parquet($path, hive_partitioning = false)) AS r",
            path,
        )
        lines = scalar(connection, "SELECT sum(num_rows) FROM parquet_file_metadata($path)", path)
    else:
        connection.execute(load_sql("logs/read_lines.sql"), path)
        lines = scan.lines
    read = scalar(connection, "SELECT count(*) FROM staged_lines")
    if read != lines:
        raise LogFileError(
            f"{file.path} has {lines} lines, but {read} were read; nothing was stored. "
            "Deliver the file again, or report it if it is sound"
        )
    if file.format != "parquet":
        _clear_rowless(connection, layout)
    return lines


def rowless_lines(connection: Connection) -> int:
    """Return how many of the staged lines carry no row."""
    return scalar(connection, "SELECT count(*) FROM staged_lines WHERE text IS NULL")


def _clear_rowless(connection: Connection, layout: Layout | None) -> None:
    """Join the records that go on over line ends; set the text of lines without a row to NULL."""
    blank, header_lines = " \t", 0
    if layout is not None:
        blank, header_lines = blank + layout.delimiter, layout.header_lines
        any_quote = "SELECT count(*) FROM staged_lines WHERE contains(text, '\"')"
        if layout.quoted and scalar(connection, any_quote):
            values = {k: v for k, v in layout.parameters.items() if k not in ("n_used", "quoted")}
            connection.execute(
                f"UPDATE staged_lines SET text = CASE WHEN staged_lines.rowid = first THEN record "  # noqa: S608
                f"END FROM ({load_sql('logs/joined_records.sql')}) "
                "WHERE staged_lines.rowid BETWEEN first AND last",
                {**values, "longest": _MOST_LINES},
            )
    connection.execute(
        "UPDATE staged_lines SET text = NULL WHERE rowid < $header_lines "
        "OR trim(text, $blank) = '' "
        "OR text = (SELECT text FROM staged_lines WHERE rowid = $header_lines - 1)",
        {"header_lines": header_lines, "blank": blank},
    )


def require_exact(where: str, columns: ColumnSettings, types: Mapping[str, str]) -> None:
    """Refuse columns whose type does not carry what they are read as. types: by name."""
    for role, name in _mapped(columns).items():
        if not re.fullmatch(_TYPES[role], types[name]):
            raise LogFileError(
                f"{where}: column {name!r} has type {types[name]}, which cannot be read "
                f"exactly as a {role}; write it as text"
            )


def parquet_types(connection: Connection, path: Path) -> dict[str, str]:
    """Return the columns of a Parquet file with their types."""
    unpacked = scalar(
        connection,
        "SELECT coalesce(greatest(sum(total_uncompressed_size), sum(num_values)), 0) "
        "FROM parquet_metadata($path)",
        {"path": literal_path(path)},
    )
    require_ratio(path, path.stat().st_size, unpacked)
    rows = connection.execute(
        "DESCRIBE SELECT * FROM read_parquet($path, hive_partitioning = false)",
        {"path": literal_path(path)},
    ).fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def delimited_fields(layout: Layout) -> Query:
    """SELECT line, text, format_problem, f: the fields of every line of delimited text."""
    return Query(load_sql("logs/delimited_fields.sql"), layout.parameters)


def json_fields(
    names: Sequence[str], n_required: int, *, exact_ids: bool, nested: Mapping[str, str] = {}
) -> Query:
    """SELECT line, text, format_problem, f: some keys, user and item first; exact ids are whole."""
    parameters: dict[str, object] = {
        "names": list(names),
        "paths": [nested.get(name, f'$."{name}"') for name in names],
        "n_required": n_required,
        "exact_ids": exact_ids,
        "mark": MARK,
    }
    return Query(load_sql("logs/json_fields.sql"), parameters)


def filled(sql: str, fragments: Mapping[str, str]) -> str:
    """Put SQL fragments of our own at their {names}; values never come this way."""
    for name, fragment in fragments.items():
        sql = sql.replace(f"{{{name}}}", fragment)
    return sql


def _event_query(
    file: LogFile, logs: LogSettings, erased: ErasedUsers, fields: Query, columns: dict[str, int]
) -> Query:
    """`WITH … events AS (line, text, user_id, item_id, event_time, weight, reason)`."""
    event_time, time_parameters = event_time_sql(logs.timestamp_format)
    fragments = {
        "fields": fields.sql,
        "event_time": event_time,
        "is_erased": load_sql("logs/is_erased.sql") if erased.hashes else "false",
        "weight": "'1'",
        "exclude": "''",
        "event": "NULL",
        "event_weight": "1",
        "weighed": "amount",
        **{role: f"f[{number}]" for role, number in columns.items()},
    }
    parameters = fields.parameters | time_parameters
    if logs.columns.event:
        known = "list_position($event_names::VARCHAR[], event)"
        fragments["event_weight"] = f"list_extract($event_weights::DOUBLE[], {known})"
        fragments["weighed"] = "amount::DOUBLE * event_weight"
        names, weights = zip(*logs.event_weights, strict=True) if logs.event_weights else ((), ())
        parameters |= {"event_names": list(names), "event_weights": list(weights)}
    if erased.hashes:
        parameters |= {"salt": erased.salt, "erased_users": list(erased.hashes), "a_word": _WORD}
    midnight = datetime.combine(file.day + timedelta(days=1), time(), logs.zone)
    parameters |= {
        "set_aside_prefix": SET_ASIDE_PREFIX,
        "erased_reason": ERASED,
        "max_id": MAX_ID,
        "earliest": _EARLIEST,
        "day_end": midnight.astimezone(UTC).isoformat(),
        "number": _NUMBER,
        "max_weight": _MAX_WEIGHT,
    }
    return Query(filled(load_sql("logs/check_events.sql"), fragments), parameters)


def _mapped(columns: ColumnSettings) -> dict[str, str]:
    """Role -> column name, for the roles that are in use."""
    return {role: getattr(columns, role) for role in _TYPES if getattr(columns, role)}


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


def _require_columns(file: LogFile, wanted: Mapping[str, str], header: list[str]) -> None:
    """Refuse a file without the columns that are read; say so of another separator."""
    remedy, names = "Correct the file's header or the setting", set(wanted.values())
    for delimiter in (*DELIMITERS, "\t") if len(header) == 1 else ():
        if names <= {name.strip() for name in header[0].split(delimiter)}:
            named = "name it .tsv" if delimiter == "\t" else f"set logs.delimiter = {delimiter!r}"
            remedy = f"Its fields are separated by {delimiter!r}: {named}"
    # Without a header the first line holds ids, which are not repeated.
    is_name = re.compile(r"[^\W\d][^\W\d _-]*(?:[ _-][^\W\d]+)*")
    shown = [name[:80] if is_name.fullmatch(name) else "…" for name in header[:20]]
    for role, name in wanted.items():
        if header.count(name) != 1:
            problem = "has no" if name not in header else "has more than one"
            raise LogFileError(
                f"{file.path} {problem} column {name!r} (logs.columns.{role}); expected "
                f"{list(wanted.values())}, found {shown}. {remedy}"
            )


# Setting -> expression over `time_text`, and the pattern of what it may read. DuckDB casts more
# than that: 2024/03/01, 24:00:00, "epoch", 1_709_287_200.
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9](?::[0-5][0-9])?)?)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[ T]{_CLOCK}(?: ?{_OFFSET}| (?:UTC|GMT))?)?"
_EPOCH = r"-?[0-9]+(?:\.[0-9]+)?"
_WIDE = "TRY_CAST(time_text AS DECIMAL({}, {}))::DECIMAL(28, 6)"  # no product overflows it
_NAMED = {
    # Without the space before an offset, which DuckDB does not read.
    "iso": (
        "TRY_CAST(replace(replace(time_text, ' +', '+'), ' -', '-') AS TIMESTAMPTZ)",
        _ISO,
    ),
    "epoch_s": (f"make_timestamptz((1000000 * {_WIDE.format(16, 6)})::BIGINT)", _EPOCH),
    "epoch_ms": (f"make_timestamptz((1000 * {_WIDE.format(18, 3)})::BIGINT)", _EPOCH),
    "epoch_us": ("make_timestamptz(TRY_CAST(time_text AS BIGINT))", "-?[0-9]{1,18}"),
    # Days since 1899-12-30, to the second, in the zone of the logs; 25569 is 1970-01-01.
    "excel": (
        "make_timestamp(1000000 * round(86400 * "
        "(TRY_CAST(replace(time_text, ',', '.') AS DOUBLE) - 25569))::BIGINT)::TIMESTAMPTZ",
        r"[0-9]{1,5}(?:[.,][0-9]+)?",
    ),
}
_PATTERN_TIME = """
    CASE WHEN lower(trim(time_text)) NOT IN ('epoch', 'infinity', '-infinity')
        AND regexp_matches(time_text, $time_form{n})
    THEN try_strptime(time_text, $time_pattern{n})::TIMESTAMPTZ END
"""
_CLOCKS = (
    *("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", " %H:%M:%S.%f"),
    *(", %H:%M:%S", ", %H:%M", ", %I:%M:%S %p", ", %I:%M %p", " %I:%M:%S%p", " %I:%M%p"),
    *(" %H:%M:%S %Z", " %H:%M %Z", " %H:%M:%S%z", " %H:%M%z", " %H:%M:%S %z", " %H:%M %z"),
)
_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"),
    *("%d-%b-%y", "%Y%m%d", "%Y-%m-%d", "%a, %d %b %Y", "%B %d, %Y", "%d. %B %Y"),
)
# In the order of preference where several fit alike.
_FORMATS = (*_NAMED, *(day + clock for day in _DATES for clock in _CLOCKS))
# Numbers are times only within these years: 20240301 is a day, 12345 is none.
_FIRST_TIME, _LAST_TIME = "1990-01-01", "2100-01-01"
# Values that a format is tried on first; most formats read none of them.
_FEW = 20


def event_time_sql(timestamp_format: str, number: str = "") -> tuple[str, dict[str, object]]:
    """Expression from `time_text` to a TIMESTAMPTZ or NULL. number: of its parameter."""
    if timestamp_format in _NAMED:
        expression, form = _NAMED[timestamp_format]
        sql = f"CASE WHEN regexp_full_match(time_text, $time_form{number}) THEN {expression} END"
        return sql, {f"time_form{number}": form}
    end = f"{_OFFSET}$" if timestamp_format.endswith("%z") else ""
    parameters = {f"time_pattern{number}": timestamp_format, f"time_form{number}": end}
    return _PATTERN_TIME.replace("{n}", number), dict(parameters)


class FittingFormat(NamedTuple):
    """A format of times, the share of values that it reads, and how many neighbours it orders."""

    name: str
    share: float
    in_order: int


def fitting_formats(values: Sequence[str]) -> list[FittingFormat]:
    """The formats that read most of some times, in order of the file; [] if none reads half."""
    values = [value for value in values if value]
    if not any(c.isdigit() for value in values for c in value):
        return []
    few = values[:: max(len(values) // _FEW, 1)]
    # A pattern has the marks between letters and digits that some values have.
    marks = {re.sub(r"[^\W_]+", "", value) for value in few}
    own = {name: re.sub("%.", "", name).replace("T", "") for name in _FORMATS}
    likely = [
        name
        for name in _FORMATS
        if name in _NAMED
        or own[name] in marks
        or (name.endswith("%z") and any(mark.startswith(own[name]) for mark in marks))
    ]
    fits = _fits(values, [fit.name for fit in _fits(few, likely)])
    good = [fit for fit in fits if fit.share > 0.5]
    return sorted(good, key=lambda fit: (-round(fit.share, 3), -fit.in_order))


def _fits(values: Sequence[str], formats: Sequence[str]) -> list[FittingFormat]:
    """Return the formats that read any of some times, asked of DuckDB as the readers ask it."""
    if not values or not formats:
        return []
    asked = [event_time_sql(name, str(number)) for number, name in enumerate(formats)]
    parameters: dict[str, object] = {"v": values, "first": _FIRST_TIME, "last": _LAST_TIME}
    for _, of_format in asked:
        parameters |= of_format
    query = load_sql("logs/fitting_formats.sql")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        expressions = ", ".join(expression for expression, _ in asked)
        rows = connection.execute(filled(query, {"parsed": expressions}), parameters).fetchall()
    return [FittingFormat(formats[n - 1], read / len(values), order) for n, read, order in rows]


def format_advice(values: Sequence[str], option: str, present: str) -> str:
    """What to say of times not understood: a format that fits, and the option for it."""
    fits = [fit for fit in fitting_formats(values) if fit.name != present]
    if not fits:
        return ""
    return f"The times are not written as {present!r}: {option} {fits[0].name!r} would read them"
