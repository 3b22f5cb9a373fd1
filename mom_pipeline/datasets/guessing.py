"""A file of one's own: format, encoding, delimiter, header, columns and times, and its import.

Everything is a guess from the file alone, to be shown to a person; a choice that is given is kept.
"""

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.datasets.importing import (
    Dataset,
    EventFields,
    RawFile,
    delimited_file,
    open_text,
)
from mom_pipeline.errors import DatasetError, InvalidSetting
from mom_pipeline.logs.readers import (
    NOT_UNDERSTOOD,
    Layout,
    event_time_sql,
    fitting_formats,
    format_advice,
    json_fields,
    parquet_types,
)
from mom_pipeline.settings import ColumnSettings, LogSettings, checked
from mom_pipeline.warehouse.connection import literal_path, scalar

FIELD_DELIMITERS = (",", ";", "\t", "|")
# Lines that are kept to look at, from all over the file.
_KEPT_LINES = 4_000
_FIRST_LINES = 200
# Words of a column's name by its role, the most telling first.
_WORDS = {
    "user": "user customer client visitor member buyer shopper account person kunde kunden who",
    "item": "item sku product stock stockcode article artikel movie film song track book asin "
    "isbn video content course offer what",
    "timestamp": "timestamp ts datetime time date datum zeit at when day",
    "weight": "qty quantity weight plays units menge anzahl count",
    "item_name": "description title name label bezeichnung",
    "item_group": "category genre genres group department kategorie",
}
_NEEDED = ("user", "item", "timestamp")
# Words that make a column something else than the id of a user or an item.
_NOT_OF_AN_ID = (
    "name title description category genre genres group price type country city email age "
    "bezeichnung kategorie date time rating count quantity qty url image"
)
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")
_MOSTLY = 0.95


@dataclass(frozen=True)
class ImportOptions:
    """How a file is written, and which of its columns is what; "": no such column."""

    user: str = "user"
    item: str = "item"
    timestamp: str = "timestamp"
    weight: str = ""
    item_name: str = ""
    item_group: str = ""
    timestamp_format: str = "iso"
    timezone: str = "UTC"
    file_format: str = "csv"  # or jsonl, parquet
    delimiter: str = ","
    encoding: str = "utf-8"
    has_header: bool = True

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once, user and item first."""
        return list(
            dict.fromkeys(name for name in (getattr(self, role) for role in _WORDS) if name)
        )


@dataclass(frozen=True)
class Sample:
    """Rows from all over a file, as text by column."""

    header: tuple[str, ...]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        at = self.header.index(name)
        return [row[at] for row in self.rows if len(row) > at]


@dataclass(frozen=True)
class Guess:
    """Choices for an import, some rows of the file, and what a person should know."""

    path: Path
    options: ImportOptions
    sample: Sample
    notes: tuple[str, ...] = ()

    def parsed_rows(self, n: int) -> list[tuple[str, ...]]:
        """The first rows as an import reads them: user, item, time, weight and name of the item.

        A time that is not understood is shown as such.
        """
        options = self.options
        names = (options.user, options.item, options.timestamp, options.weight, options.item_name)
        columns = [self.sample.column(name)[:n] if name else [""] * n for name in names]
        expression, parameters = event_time_sql(options.timestamp_format)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = $zone", {"zone": options.timezone})
            read = connection.execute(
                f"SELECT coalesce(strftime({expression}, '%Y-%m-%d %H:%M:%S'), "  # noqa: S608
                "'not understood: ' || time_text) FROM (SELECT unnest($times) AS time_text)",
                {**parameters, "times": columns[2]},
            ).fetchall()
        columns[2] = [time for (time,) in read]
        return list(zip(*columns, strict=False))


def guess_file(path: Path, given: dict[str, Any]) -> Guess:
    """Guess all options of an import that are not given (name -> value).

    Raises DatasetError with the option to use where a column cannot be told.
    """
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give a CSV, TSV, JSON lines or Parquet file")
    _require_valid(replace(ImportOptions(), **given))
    options, sample = _read(path, replace(ImportOptions(), **given), given)
    notes: list[str] = []
    options = replace(options, **_columns(path, sample, given))
    if "timestamp_format" not in given:
        name, note = _time_format(sample.column(options.timestamp), options.timestamp)
        options = replace(options, timestamp_format=name)
        notes += [note] if note else []
    if not options.has_header:
        notes.append("the file has no header: its columns are called by their numbers")
    return Guess(path, options, sample, tuple(notes))


def _require_valid(options: ImportOptions) -> None:
    """The same rules as for log files, in the words of the options."""
    if options.delimiter not in FIELD_DELIMITERS:
        raise DatasetError(
            f"--delimiter must be one of {', '.join(map(repr, FIELD_DELIMITERS))}, found "
            f"{options.delimiter!r}"
        )
    try:
        codecs.lookup(options.encoding)
    except LookupError:
        raise DatasetError(
            f"--encoding must be one that Python knows, such as utf-8 or latin-1, found "
            f"{options.encoding!r}"
        ) from None
    try:
        checked(LogSettings, timezone=options.timezone, timestamp_format=options.timestamp_format)
    except InvalidSetting as error:
        words = str(error).replace("timezone", "--timezone")
        raise DatasetError(words.replace("timestamp_format", "--timestamp-format")) from None


def own_file(guess: Guess) -> Dataset:
    """The adapter for a file of one's own: CSV, JSON lines or Parquet.

    Lines without a user or an item, and those with a weight of 0 or less, are set aside.
    """
    options, path, columns = guess.options, guess.path, guess.options.columns
    read = guess.sample.header if options.file_format == "csv" else columns
    at = {name: f"coalesce(f[{n}], '')" for n, name in enumerate(read, start=1)} | {"": "''"}
    event_time, parameters = event_time_sql(options.timestamp_format)
    events = EventFields(
        time=event_time.replace("time_text", at[options.timestamp]),
        user=at[options.user],
        item=at[options.item],
        weight=at[options.weight] if options.weight else "'1'",
        exclude=_set_aside(options, at),
        item_name=at[options.item_name],
        item_group=at[options.item_group],
        time_format="%Y-%m-%dT%H:%M:%S.%f%z",
        parameters=parameters,
    )
    times = guess.sample.column(options.timestamp)
    more: dict[str, Any] = {"encoding": options.encoding}
    if options.file_format == "csv":
        n_used = max(read.index(name) + 1 for name in columns)
        layout = Layout(options.delimiter, len(read), n_used, header_lines=int(options.has_header))
        raw = delimited_file(path, layout, events, **more)
    else:
        texts = _parquet_texts(path) if options.file_format == "parquet" else {}
        more["texts"] = {name: texts[name] for name in columns if texts}
        lines = json_fields(columns, len(_NEEDED), exact_ids=False)
        raw = RawFile(path, events.select(lines), **more)
    return Dataset(
        name="csv",
        timezone=options.timezone,
        columns=ColumnSettings(weight="weight" if options.weight else "", exclude="exclude"),
        files=(raw,),
        rules=f"columns {', '.join(columns)}; times as {options.timestamp_format}",
        remedies={
            NOT_UNDERSTOOD: partial(
                format_advice, times, "--timestamp-format", options.timestamp_format
            ),
            "expected": lambda: "--delimiter, or quotes around fields that hold it",
            "unbalanced quote": lambda: "close the quote, or double it inside of a field",
            "not UTF-8": lambda: "--encoding",
        },
    )


def _set_aside(options: ImportOptions, at: dict[str, str]) -> str:
    """Why a line is no event, as the source itself says it; '' for an event."""
    weight = f"coalesce(TRY_CAST({at[options.weight]} AS DOUBLE), 0) <= 0"
    of_weight = f"WHEN {weight} THEN 'weight not above 0'" if options.weight else ""
    return (
        f"CASE WHEN {at[options.user]} = '' THEN 'no user' "
        f"WHEN {at[options.item]} = '' THEN 'no item' {of_weight} ELSE '' END"
    )


def _read(
    path: Path, options: ImportOptions, given: dict[str, Any]
) -> tuple[ImportOptions, Sample]:
    """Return the options of format, encoding, delimiter and header, and a sample of rows."""
    with path.open("rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet:
        return replace(options, file_format="parquet"), _parquet_sample(path)
    encoding = given.get("encoding") or _encoding(path)
    lines = list(_some_lines(path, encoding))
    if not lines:
        raise DatasetError(f"{path} is empty; give a file with a line per event")
    options = replace(options, encoding=encoding)
    if lines[0].lstrip().startswith("{"):
        return replace(options, file_format="jsonl"), _json_sample(path, lines)
    if lines[0].lstrip().startswith("["):
        raise DatasetError(f"{path} is a JSON array; write one object per line (JSON lines)")
    delimiter = given.get("delimiter") or _delimiter(path, lines[:_FIRST_LINES])
    rows = [row for line in lines for row in csv.reader([line], delimiter=delimiter)]
    has_header = given.get("has_header", _is_header(rows))
    names = rows[0] if has_header else [str(number) for number in range(1, len(rows[0]) + 1)]
    body = [row for row in rows[has_header:] if len(row) == len(names)]
    if not body:
        raise DatasetError(f"{path} has a header and no line after it; give a file with events")
    options = replace(options, file_format="csv", delimiter=delimiter, has_header=has_header)
    return options, Sample(tuple(names), body)


def _encoding(path: Path) -> str:
    """Return the encoding that reads the whole file; the byte order mark decides first."""
    with open_text(path) as stream:
        if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        stream.seek(0)
        marked = stream.read(3) == codecs.BOM_UTF8
    for encoding in ("utf-8-sig" if marked else "utf-8", "cp1252"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            with open_text(path) as stream:
                while chunk := stream.read(1 << 20):
                    decoder.decode(chunk)
                decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            continue
        except (OSError, EOFError) as error:
            raise DatasetError(f"{path} cannot be read: {error}") from error
        return encoding
    return "latin-1"


def _some_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the first lines of a file that are not empty, and some of all that follow."""
    stride, kept = 1, 0
    with open_text(path) as stream:
        # Line ends as the import sees them: a form feed ends no line.
        for number, line in enumerate(io.TextIOWrapper(stream, encoding, newline="\n")):
            line = line.rstrip("\r\n")
            if line and (number < _FIRST_LINES or number % stride == 0):
                yield line
                kept += 1
                if kept % (_KEPT_LINES // 4) == 0:
                    stride *= 4


def _delimiter(path: Path, lines: Sequence[str]) -> str:
    """Return what cuts most lines into as many fields as the first one, and into most."""

    def cut(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for line in lines for row in csv.reader([line], delimiter=delimiter)]
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    fits = {one: cut(one) for one in FIELD_DELIMITERS}
    good = {one: fit for one, fit in fits.items() if fit[1] > 2 and fit[0] > 0.5}
    if not good:
        raise DatasetError(
            f"{path}: no delimiter of {', '.join(map(repr, FIELD_DELIMITERS))} gives a user, an "
            f"item and a time in each line; the first line is {lines[0][:120]!r}. Give --delimiter"
        )
    return max(good, key=lambda one: (round(good[one][0], 1), good[one][1]))


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row names columns: words where the others have times or numbers."""
    first = rows[0]
    if any(_rank(role, name) is not None for role in _NEEDED for name in first):
        return True
    values = [value for row in rows[1:2] for value in row]
    return not any(_NUMBER.fullmatch(name) for name in first) and any(
        _NUMBER.fullmatch(value) for value in values
    )


def _parquet_texts(path: Path) -> dict[str, str]:
    """Return the columns of a Parquet file, each with its expression as text.

    A whole number that some program made a float of, 17850.0, is written as one: 17850.
    """
    whole = (
        "CASE WHEN abs({0}) < 1e15 AND {0} = trunc({0}) THEN {0}::BIGINT::VARCHAR "
        "WHEN NOT isnan({0}) THEN {0}::VARCHAR END"
    )
    try:
        with duckdb.connect() as connection:
            types = parquet_types(connection, path)
    except duckdb.Error as error:
        raise DatasetError(f"{path} cannot be read as Parquet: {error}") from error
    return {
        name: (whole if kind in ("DOUBLE", "FLOAT") else "{0}::VARCHAR").format(f'"{name}"')
        for name, kind in types.items()
        if '"' not in name
    }


def _parquet_sample(path: Path) -> Sample:
    """Return the first rows and some of all that follow, in the order of the file."""
    columns = _parquet_texts(path)
    texts = ", ".join(f'{text} AS "{name}"' for name, text in columns.items())
    file = {"path": literal_path(path)}
    with duckdb.connect() as connection:
        n_rows = scalar(
            connection, "SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata($path)", file
        )
        rows = connection.execute(
            f"SELECT {texts} FROM read_parquet($path, hive_partitioning = false, "  # noqa: S608
            "file_row_number = true) WHERE file_row_number < $first OR file_row_number % $stride "
            "= 0 ORDER BY file_row_number",
            file | {"first": _FIRST_LINES, "stride": max(n_rows // _KEPT_LINES, 1)},
        ).fetchall()
    if not rows:
        raise DatasetError(f"{path} holds no row; give a file with events")
    return Sample(tuple(columns), [["" if v is None else v for v in row] for row in rows])


def _json_sample(path: Path, lines: Sequence[str]) -> Sample:
    objects = []
    for line in lines:
        with suppress(ValueError):
            objects.append(json.loads(line, parse_int=str, parse_float=str))
    objects = [value for value in objects if isinstance(value, dict)]
    names = tuple(dict.fromkeys(name for value in objects[:_FIRST_LINES] for name in value))
    if not names:
        raise DatasetError(f"{path}: no line is a JSON object; the first is {lines[0][:120]!r}")
    rows = [["" if v.get(n) is None else str(v.get(n)) for n in names] for v in objects]
    return Sample(names, rows)


def _words_of(name: str) -> list[str]:
    """Return the words of a column's name: CustomerID, customer_id and "Customer Id" alike."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    words = [word.casefold() for word in re.split(r"[\W_]+", parts) if word]
    # `userid`, `kundennr`: one word that ends in what an id is called.
    return [word for w in words for word in (w, re.sub(r"(id|nr|no|number|code|s)$", "", w))]


def _rank(role: str, name: str) -> int | None:
    """Return how telling a column's name is for a role, 0 the most; None where it is not."""
    words, wanted = set(_words_of(name)), _WORDS[role].split()
    if role in ("user", "item") and words & set(_NOT_OF_AN_ID.split()):
        return None
    ranks = [wanted.index(word) for word in words if word in wanted]
    return min(ranks) if ranks else None


def _columns(path: Path, sample: Sample, given: dict[str, Any]) -> dict[str, Any]:
    """Return the column of every role; "" for a name, a group or a weight that is not there."""
    chosen: dict[str, Any] = {role: given[role] for role in _WORDS if role in given}
    for role, name in chosen.items():
        if name and sample.header.count(name) != 1:
            raise DatasetError(
                f"{path} must have exactly one column {name!r} (--{role.replace('_', '-')}), found "
                f"{list(sample.header)[:20]}"
            )
    for role in ("timestamp", "user", "item", "weight", "item_name", "item_group"):
        if role not in chosen:
            chosen[role] = _column(path, sample, role, set(chosen.values()))
    return chosen


def _column(path: Path, sample: Sample, role: str, taken: set[str]) -> str:
    """Return the free column whose name tells most of a role, and whose values are fit for it."""
    free = [name for name in sample.header if name not in taken]
    ranked = [(rank, name) for name in free if (rank := _rank(role, name)) is not None]
    ranked.sort(key=lambda entry: entry[0])
    fitting = [name for _, name in ranked if _holds(role, sample.column(name))]
    if not fitting and role == "timestamp":
        fitting = [name for name in free if _holds(role, sample.column(name))]
    elif not fitting and role in ("user", "item") and sample.header[0] == "1":
        fitting = free[:1]  # without a header: the user first, then the item
    if not fitting and role in _NEEDED:
        raise DatasetError(
            f"{path}: no column looks like the {role}, found {list(sample.header)[:20]}; name it "
            f"with --{role}"
        )
    return fitting[0] if fitting else ""


def _holds(role: str, values: Sequence[str]) -> bool:
    """Tell whether the values of a column are what a role needs."""
    there = [value for value in values if value]
    if not there:
        return False
    if role == "timestamp":
        fits = fitting_formats(there[:_FIRST_LINES])
        return bool(fits) and fits[0].share >= _MOSTLY
    if role == "weight":
        return sum(bool(_NUMBER.fullmatch(value)) for value in there) >= _MOSTLY * len(there)
    return True


def _time_format(values: Sequence[str], column: str) -> tuple[str, str]:
    """Return the format of the times, and a note where another one would do as well."""
    fits = fitting_formats(values)
    if not fits:
        shown = next((value for value in values if value), "")
        raise DatasetError(
            f"the times of column {column!r} are in no known format, such as {shown[:60]!r}; give "
            "--timestamp-format, such as '%d/%m/%Y %H:%M'"
        )
    best, *others = fits
    for other in others:
        swapped = re.findall("%[dm]", other.name) != re.findall("%[dm]", best.name)
        if swapped and other[1:] == best[1:]:
            return best.name, (
                f"the days fit {best.name!r} and {other.name!r} alike; --timestamp-format decides"
            )
    return best.name, ""
