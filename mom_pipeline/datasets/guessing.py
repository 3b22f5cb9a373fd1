"""A file of one's own: all that an import must know, guessed from the file alone for a person."""

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb

from mom_pipeline.datasets.columns import ROLES, SPARSE, Sample, choose, empty, named, rank
from mom_pipeline.datasets.importing import (
    Dataset,
    EventFields,
    RawFile,
    delimited_file,
    is_parquet,
    open_text,
)
from mom_pipeline.errors import DatasetError, InvalidSetting
from mom_pipeline.logs.readers import (
    NOT_UNDERSTOOD,
    Layout,
    event_time_sql,
    filled,
    fitting_formats,
    format_advice,
    json_fields,
    parquet_types,
)
from mom_pipeline.settings import ColumnSettings, LogSettings, checked
from mom_pipeline.warehouse.connection import literal_path, load_sql, scalar

FIELD_DELIMITERS = (",", ";", "\t", "|", "::", " ")
DECIMALS = (".", ",")
# Lines that are kept to look at, from all over the files, and lines at their beginning.
_KEPT_LINES = 4_000
_FIRST_LINES = 200
_MOST_COLUMNS = 1_000
_OF_ONE_DAY = "the day of the import"
_NEEDED, _NO_TIMES = ("user", "item"), ("weight", "price", "item_name", "item_group", "event")
# Texts of programs for a value that is not there.
_NOTHING = ("", "NULL", "null", "NaN", "nan", "None", r"\N", "#N/A")
# What stands beside the digits of a number.
_BESIDE = r"[\s\x{00a0}\x{202f}'’\"$€£¥₹₽]|EUR|USD|GBP|CHF|PLN|zł|kr\.?$|Fr\."
_IDS = re.compile(r"\S*\d\S*( \S*\d\S*)+")
_ID_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


@dataclass(frozen=True)
class ImportOptions:
    """Which column is what, "" for none, and how times and numbers are written."""

    user: str = ""
    item: str = ""
    timestamp: str = ""
    clock: str = ""  # the time of the day, where `timestamp` is a date alone
    weight: str = ""
    event: str = ""
    item_name: str = ""
    item_group: str = ""
    timestamp_format: str = "iso"
    timezone: str = "UTC"
    decimal: str = "."

    @property
    def columns(self) -> dict[str, str]:
        """The column of each role that has one."""
        return {role: name for role in ROLES if (name := getattr(self, role))}

    def times(self, sample: Sample) -> list[str]:
        """The times of some rows as text."""
        if not self.clock:
            return sample.column(self.timestamp)
        both = zip(sample.column(self.timestamp), sample.column(self.clock), strict=True)
        return [" ".join(parts).strip() for parts in both]


@dataclass(frozen=True)
class FoundFile:
    """How one file is written. file_format: csv, jsonl or parquet."""

    path: Path
    header: tuple[str, ...]
    file_format: str = "csv"
    delimiter: str = ","
    encoding: str = "utf-8"
    header_lines: int = 1
    paths: Mapping[str, str] = field(default_factory=dict)  # of JSON: to what lies in an object


@dataclass(frozen=True)
class Guess:
    """Choices for an import, some rows of the files, and what a person should know."""

    files: tuple[FoundFile, ...]
    options: ImportOptions
    sample: Sample
    notes: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()  # roles whose column is a guess from the values
    event_weights: Mapping[str, float] = field(default_factory=dict)

    def parsed_rows(self, n: int) -> list[tuple[str, ...]]:
        """The first rows as an import reads them: user, item, time, weight and name."""
        options, first = self.options, Sample(self.sample.header, self.sample.rows[:n])
        names = (options.user, options.item, options.timestamp, options.weight, options.item_name)
        columns = [first.column(name) if name else [""] * len(first.rows) for name in names]
        time, parameters = event_time_sql(options.timestamp_format)
        read: dict[int, str] = {}
        if options.timestamp:
            columns[2], read[2] = options.times(first), f"strftime({time}, '%Y-%m-%d %H:%M:%S')"
        if options.weight:
            read[3] = f"({_number_sql('time_text', options.decimal)})::DOUBLE::VARCHAR"
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = $zone", {"zone": options.timezone})
            for at, value in read.items():
                values = {"texts": columns[at], **(parameters if at == 2 else {})}
                query = f"SELECT coalesce({value}, 'not understood: ' || time_text) FROM "  # noqa: S608
                found = connection.execute(f"{query} (SELECT unnest($texts) AS time_text)", values)
                columns[at] = [text for (text,) in found.fetchall()]
        return list(zip(*columns, strict=True))


def guess_files(paths: Sequence[Path], given: Mapping[str, Any]) -> Guess:
    """Guess all options of an import that are not given; DatasetError names those to use."""
    _require_valid(given)
    found = [_read(path, given, _KEPT_LINES // len(paths)) for path in paths]
    files = tuple(file for file, _ in found)
    header, name = files[0].header, paths[0].name
    for file in files:
        if missing := set(header) - set(file.header):
            raise DatasetError(
                f"{file.path} has no column {min(missing)!r}, which {name} has; give files of one "
                "kind"
            )
    rows = [[part.column(n) for n in header] for _, part in found]
    sample = Sample(header, [list(row) for part in rows for row in zip(*part, strict=True)])
    if not sample.rows:
        raise DatasetError("there is a header and no row below it; give a source with events")
    options, doubtful = _columns(paths[0], sample, given)
    options, *notes = _with_times(options, sample, given)
    if options.weight and "decimal" not in given:
        decimal, note = _decimal(sample.column(options.weight), files[0].delimiter)
        options, notes = replace(options, decimal=decimal), [*notes, note]
    for role in _NEEDED:
        if (share := empty(sample.column(getattr(options, role)))) > SPARSE:
            notes.append(f"{share:.0%} of the rows have no {role}, and are set aside: look whether")
            notes[-1] += f" another column is meant (--{role})"
    if not files[0].header_lines and files[0].file_format == "csv":
        notes.append("the file has no header: its columns are called by their numbers")
    told, weights = tuple(filter(None, notes)), given.get("event_weights", {})
    return Guess(files, options, sample, told, tuple(doubtful), weights)


def _require_valid(given: Mapping[str, Any]) -> None:
    """The same rules as for log files, in the words of the options."""
    for option, known in (("delimiter", FIELD_DELIMITERS), ("decimal", DECIMALS)):
        if given.get(option, known[0]) not in known:
            raise DatasetError(
                f"--{option} must be one of {', '.join(map(repr, known))}, found {given[option]!r}"
            )
    try:
        codecs.lookup(given.get("encoding", "utf-8"))
    except LookupError:
        raise DatasetError(
            f"--encoding must be one that Python knows, such as utf-8 or latin-1, found "
            f"{given['encoding']!r}"
        ) from None
    names = ("timezone", "timestamp_format")
    try:
        checked(LogSettings, **{name: given[name] for name in names if name in given})
    except InvalidSetting as error:
        words = str(error).replace("timezone", "--timezone")
        raise DatasetError(words.replace("timestamp_format", "--timestamp-format")) from None


def own_files(guess: Guess, day: date | None = None) -> Dataset:
    """The adapter for files of one's own. day: of rows without a time; by default today."""
    options, today = guess.options, datetime.now(ZoneInfo(guess.options.timezone)).date()
    weighted, typed = ("weight" if options.weight else ""), ("event" if options.event else "")
    return Dataset(
        name="csv",
        timezone=options.timezone,
        columns=ColumnSettings(weight=weighted, exclude="exclude", event=typed),
        files=tuple(_raw_file(file, options, day or today) for file in guess.files),
        event_weights=guess.event_weights,
        rules=f"columns {', '.join(options.columns.values())}; times as "
        f"{options.timestamp_format if options.timestamp else _OF_ONE_DAY}, numbers as "
        f"0{options.decimal}5",
        remedies={
            NOT_UNDERSTOOD: lambda: (
                format_advice(
                    options.times(guess.sample), "--timestamp-format", options.timestamp_format
                )
                or "--timestamp-format, such as '%d/%m/%Y %H:%M'"
            ),
            "expected": lambda: "--delimiter, or quotes around fields that hold it",
            "unbalanced quote": lambda: "close the quote, or double it inside of a field",
            "not UTF-8": lambda: "--encoding",
            "quantity": lambda: "--decimal, --weight, or --weight '' to count lines",
        },
    )


def _raw_file(file: FoundFile, options: ImportOptions, day: date) -> RawFile:
    """How the events of one file are read."""
    read = file.header if file.file_format == "csv" else tuple(options.columns.values())
    at = {name: f"coalesce(f[{n}], '')" for n, name in enumerate(read, start=1)} | {"": "''"}
    event_time, parameters = event_time_sql(options.timestamp_format)
    time_text = at[options.timestamp]
    if options.clock:
        time_text = f"trim({time_text} || ' ' || {at[options.clock]})"
    event_time = event_time.replace("time_text", time_text)
    if not options.timestamp:
        event_time, parameters = "$day::TIMESTAMP", {"day": day.isoformat()}
    number = _number_sql(at[options.weight], options.decimal)
    events = EventFields(
        time=event_time,
        user=at[options.user],
        item=at[options.item],
        weight=f"({number})::VARCHAR" if options.weight else "'1'",
        event=at[options.event],
        exclude=_set_aside(at, options, number),
        item_name=at[options.item_name],
        item_group=at[options.item_group],
        time_format="%Y-%m-%dT%H:%M:%S.%f%z" if options.timestamp else "%Y-%m-%dT%H:%M:%S",
        parameters=parameters,
    )
    if file.file_format == "csv":
        layout = Layout(
            file.delimiter,
            len(read),
            max(read.index(name) + 1 for name in options.columns.values()),
            header_lines=file.header_lines,
            quoted=file.delimiter != "::",
        )
        return delimited_file(file.path, layout, events, encoding=file.encoding)
    texts = _parquet_texts(file.path) if file.file_format == "parquet" else {}
    return RawFile(
        file.path,
        events.select(json_fields(read, len(options.columns), exact_ids=False, nested=file.paths)),
        encoding=file.encoding,
        texts={name: texts[name] for name in read if texts},
    )


def _set_aside(at: Mapping[str, str], options: ImportOptions, number: str) -> str:
    """Why a line is no event, as the source itself says it; '' for an event."""
    nothing = ", ".join(f"'{text}'" for text in _NOTHING)
    cases = f"WHEN trim({at[options.user]}) IN ({nothing}) THEN 'no user' "
    cases += f"WHEN trim({at[options.item]}) IN ({nothing}) THEN 'no item' "
    if options.weight:
        cases += f"WHEN trim({at[options.weight]}) IN ({nothing}) THEN 'no quantity' "
        cases += f"WHEN ({number}) = 0 THEN 'quantity 0' "
    return f"CASE {cases} ELSE '' END"


def _read(path: Path, given: Mapping[str, Any], n_rows: int) -> tuple[FoundFile, Sample]:
    """Return how a file is written, and a sample of its rows."""
    if is_parquet(path):
        sample = _parquet_sample(path, n_rows)
        return FoundFile(path, sample.header, "parquet"), sample
    encoding = given.get("encoding") or _encoding(path)
    try:
        lines = list(_some_lines(path, encoding, n_rows))
    except (UnicodeError, OSError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read as {encoding}: {error}") from error
    if not lines:
        raise DatasetError(f"{path} is empty; give a file with a line per event")
    if lines[0].lstrip().startswith("{"):
        sample, paths = _json_sample(path, lines)
        return FoundFile(path, sample.header, "jsonl", encoding=encoding, paths=paths), sample
    delimiter = given.get("delimiter") or _delimiter(path, lines[:_FIRST_LINES])
    rows = _cut(lines, delimiter)
    width = Counter(map(_filled, rows)).most_common(1)[0][0]
    if width > _MOST_COLUMNS:
        raise DatasetError(
            f"{path} has {width:,} columns, expected at most {_MOST_COLUMNS:,}; give a file with a "
            "line per event"
        )
    at = next(n for n, row in enumerate(rows) if len(row) >= width - 1)
    names, header_lines = [name.strip().removeprefix("\ufeff") for name in rows[at]], 0
    if _is_header(rows[at:]):
        with open_text(path) as stream:
            text = io.TextIOWrapper(stream, encoding, newline="\n")
            before = (n for n, line in enumerate(text) if line.rstrip("\r\n") == lines[at])
            header_lines = 1 + next(before)
        if len(names) == width - 1 and any(len(row) == width and row[-1] for row in rows):
            names = ["row", *names]  # R names no column for the names of the rows
    else:
        names = [str(number) for number in range(1, width + 1)]
    names = [name or f"column {n}" for n, name in enumerate(names, start=1)]
    body = [row for row in rows[at + bool(header_lines) :] if abs(_filled(row) - len(names)) <= 1]
    found = FoundFile(path, tuple(names), "csv", delimiter, encoding, header_lines)
    return found, Sample(tuple(names), body)


def _cut(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the fields of lines; a record in quotes may go on over line ends."""
    if len(delimiter) > 1:
        return [line.split(delimiter) for line in lines]
    with suppress(csv.Error):
        rows = [row for row in csv.reader((f"{x}\n" for x in lines), delimiter=delimiter) if row]
        if len(rows) > len(lines) / 3:  # or else a quote was never closed
            return [row for row in rows if any(row)]
    return [line.split(delimiter) for line in lines]


def _filled(row: Sequence[str]) -> int:
    """Return the number of fields up to the last one that is not empty."""
    return max((n for n, field in enumerate(row, start=1) if field), default=0)


def _encoding(path: Path) -> str:
    """Return the encoding that reads the whole file; the byte order mark decides first."""
    try:
        with open_text(path) as stream:
            begin = stream.read(4_000)
        if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if begin[1::2].count(0) > len(begin) / 4:  # without a mark, as some programs write it
            return "utf-16-le"
        marked = begin.startswith(codecs.BOM_UTF8)
        for encoding in ("utf-8-sig" if marked else "utf-8", "cp1252"):
            decoder = codecs.getincrementaldecoder(encoding)()
            try:
                with open_text(path) as stream:
                    while chunk := stream.read(1 << 20):
                        decoder.decode(chunk)
                    decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                continue
            return encoding
    except (OSError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return "latin-1"


def _some_lines(path: Path, encoding: str, n_lines: int) -> Iterator[str]:
    """Yield the first lines of a file that are not empty, and some of all that follow."""
    stride, kept = 1, 0
    with open_text(path) as stream:
        # Line ends as the import sees them: a form feed ends no line.
        text = io.TextIOWrapper(stream, encoding, newline="\n")
        number = 0
        while line := text.readline(1 << 20):
            line, number = line.rstrip("\r\n"), number + 1
            if line.strip() and (number <= _FIRST_LINES or number % stride == 0):
                yield line
                kept += 1
                if kept % max(n_lines // 4, _FIRST_LINES) == 0:
                    stride *= 4


def _delimiter(path: Path, lines: Sequence[str]) -> str:
    """Return what cuts most lines into as many fields as most others, and into most."""

    def cut(delimiter: str) -> tuple[float, int]:
        widths = [len(row) for row in _cut(lines, delimiter)]
        width, n = Counter(widths).most_common(1)[0]
        return n / len(widths), width

    fits = {one: cut(one) for one in FIELD_DELIMITERS}
    blank = fits.pop(" ")  # between ids alone: names have blanks too
    good = {one: fit for one, fit in fits.items() if fit[1] > 1 and fit[0] > 0.5}
    if (
        not good
        and blank[0] == 1
        and all(re.search(r"^\S*\d\S*( \S*\d\S*)+$", x) for x in lines[1:])
    ):
        return " "
    if not good:
        raise DatasetError(
            f"{path}: no delimiter of {', '.join(map(repr, FIELD_DELIMITERS))} gives a user and an "
            f"item in each line; the first line is {lines[0][:120]!r}. Give --delimiter"
        )
    return max(good, key=lambda one: (round(good[one][0], 1), good[one][1]))


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row names columns: words where the others have times or numbers."""
    first = rows[0]
    if any(_ID_NUMBER.fullmatch(name) for name in first):
        return False
    if any(named(role, name) is not None for role in (*_NEEDED, "timestamp") for name in first):
        return not any(fitting_formats([name]) for name in first)
    values = [value for row in rows[1:2] for value in row]
    return any(_ID_NUMBER.fullmatch(value) for value in values)


def _parquet_texts(path: Path) -> dict[str, str]:
    """Columns of a Parquet file, each as text; a whole number made a float, 17850.0, is 17850."""
    whole = (
        "CASE WHEN abs({0}) < 1e15 AND {0} = trunc({0}) THEN {0}::BIGINT::VARCHAR "
        "WHEN NOT isnan({0}) THEN {0}::VARCHAR END"
    )
    try:
        with duckdb.connect() as connection:
            types = parquet_types(connection, path)
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        raise DatasetError(f"{path} cannot be read as Parquet: {said}") from error
    return {
        name: (whole if kind in ("DOUBLE", "FLOAT") else "{0}::VARCHAR").format(f'"{name}"')
        for name, kind in types.items()
        if '"' not in name
    }


def _parquet_sample(path: Path, n_rows: int) -> Sample:
    """Return the first rows and some of all that follow, in the order of the file."""
    columns = _parquet_texts(path)
    texts = ", ".join(f'{text} AS "{name}"' for name, text in columns.items())
    file = {"path": literal_path(path)}
    with duckdb.connect() as connection:
        n = scalar(
            connection, "SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata($path)", file
        )
        rows = connection.execute(
            f"SELECT {texts} FROM read_parquet($path, hive_partitioning = false, "  # noqa: S608
            "file_row_number = true) WHERE file_row_number < $first OR file_row_number % $stride "
            "= 0 ORDER BY file_row_number",
            file | {"first": _FIRST_LINES, "stride": max(n // max(n_rows, 1), 1)},
        ).fetchall()
    return Sample(tuple(columns), [["" if v is None else v for v in row] for row in rows])


def _json_sample(path: Path, lines: Sequence[str]) -> tuple[Sample, dict[str, str]]:
    """Return rows of the objects, and the paths to what lies in objects of theirs: user.id."""
    objects = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            objects.append(json.loads(line, parse_int=str, parse_float=str))
    rows = [_flat(value, "$") for value in objects if isinstance(value, dict)]
    paths = {name: at for row in rows[:_FIRST_LINES] for name, (at, _) in row.items()}
    if not paths:
        raise DatasetError(f"{path}: no line is a JSON object; the first is {lines[0][:120]!r}")
    values = [[str(row.get(name, ("", ""))[1]) for name in paths] for row in rows]
    nested = {name: at for name, at in paths.items() if at != f'$."{name}"'}
    return Sample(tuple(paths), values), nested


def _flat(value: Mapping[str, Any], at: str, before: str = "") -> dict[str, tuple[str, Any]]:
    """Return what an object holds by its name, with the path to it; a.b is b in the object a."""
    found: dict[str, tuple[str, Any]] = {}
    for key, part in value.items():
        name, path = f"{before}{key}", f'{at}."{key}"'
        if isinstance(part, dict):
            found |= _flat(part, path, f"{name}.")
        elif not isinstance(part, list):
            found[name] = path, "" if part is None else part
    return found


def _columns(
    path: Path, sample: Sample, given: Mapping[str, Any]
) -> tuple[ImportOptions, list[str]]:
    """Return the options with the column of every role, and the roles that are in doubt."""
    chosen = {role: given[role] for role in ROLES if role in given}
    shown = list(sample.header)[:20]
    for role, name in chosen.items():
        if name and sample.header.count(name) != 1:
            raise DatasetError(
                f"{path} must have exactly one column {name!r} (--{role.replace('_', '-')}), found "
                f"{shown}"
            )
    columns, doubtful = choose(sample, chosen)
    if missing := [role for role in _NEEDED if not columns[role]]:
        raise DatasetError(
            f"{path}: no column looks like the {' or the '.join(missing)}, found {shown}; name "
            f"{' and '.join(f'it with --{role}' for role in missing)}"
        )
    other = given.keys() & {"timestamp_format", "timezone", "decimal"}
    return ImportOptions(**columns, **{name: given[name] for name in other}), doubtful


def _with_times(
    options: ImportOptions, sample: Sample, given: Mapping[str, Any]
) -> tuple[ImportOptions, str]:
    """Return the options with the format of the times, and a note where it is in doubt."""
    free = [name for name in sample.header if name not in options.columns.values()]
    # Called as times are, and as nothing else is.
    likely = [
        name
        for name in free
        if named("timestamp", name) is not None
        and all(rank(role, name) is None for role in (*_NEEDED, *_NO_TIMES))
    ]
    if not options.timestamp and (not likely or "timestamp" in given):
        return options, "no column holds times: all rows are of one day, today"
    if "timestamp_format" in given:
        return options, ""
    column = options.timestamp or likely[0]
    values = options.times(sample) if options.timestamp else sample.column(column)
    fits = fitting_formats(values) if options.timestamp else []
    if not fits:
        shown = next((value for value in values if value), "")
        raise DatasetError(
            f"the times of column {column!r} are in no known format, such as {shown[:60]!r}; give "
            "--timestamp-format, such as '%d/%m/%Y %H:%M', or --timestamp '' for none"
        )
    best, *others = fits
    options = replace(options, timestamp_format=best.name)
    for other in others:
        orders = [re.findall("%[dm]", one.name) for one in (other, best)]
        if all(orders) and orders[0] != orders[1] and other[1:] == best[1:]:
            return options, (
                f"the days fit {best.name!r} and {other.name!r} alike; --timestamp-format decides"
            )
    return options, ""


def _decimal(values: Sequence[str], delimiter: str) -> tuple[str, str]:
    """Return the mark before the decimals, decided by the whole column, and a note in doubt."""
    both = [re.sub(r"[^.,]", "", value) for value in values]
    last = Counter(marks[-1] for marks in both if len(set(marks)) == 2)
    for value in values:
        alone = re.search(r"(?<![0-9.,])[0-9]*([.,])[0-9]*$", value.strip())
        if alone and not re.search(r"[1-9][0-9]{0,2}[.,][0-9]{3}$", value.strip()):
            last[alone[1]] += 1
    if last:
        return last.most_common(1)[0][0], ""
    # A semicolon parts the fields where a comma is in the numbers.
    decimal = "," if delimiter == ";" else "."
    if unclear := next((value for value, marks in zip(values, both, strict=True) if marks), ""):
        return decimal, f"{unclear!r} can be read in two ways; --decimal decides"
    return decimal, ""


def _number_sql(text: str, decimal: str) -> str:
    """Return the expression of a number from its text, NULL where it is not understood."""
    thousands = "," if decimal == "." else "."
    fragments = {"bare": "b", "decimal": decimal, "thousands": thousands}
    number = filled(load_sql("datasets/number.sql"), fragments)
    beside = _BESIDE.replace("'", "''")
    return f"list_transform([regexp_replace({text}, '{beside}', '', 'g')], lambda b: {number})[1]"
