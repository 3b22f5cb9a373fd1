"""Delimited files: the SELECT from lines to events, any CSV by its columns, and Online Retail."""

import csv
import io
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.datasets.guessing import (
    FIELD_DELIMITERS,
    parquet_texts,
    require_readable,
    sample_of,
)
from mom_pipeline.datasets.importing import Dataset, ImportOptions, RawFile, open_text
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import QUOTES_BROKEN, event_time_sql, quote_patterns
from mom_pipeline.logs.scan import MAX_LINE_BYTES
from mom_pipeline.logs.time_formats import format_advice
from mom_pipeline.settings import ColumnSettings, LogSettings
from mom_pipeline.warehouse.connection import load_sql

_ONLINE_RETAIL = [
    "InvoiceNo",
    "StockCode",
    "Quantity",
    "InvoiceDate",
    "UnitPrice",
    "CustomerID",
    "Country",
]
_DESCRIPTION = "Description"  # as UCI publishes it; copies without it are common
_EXCLUDE = """
    CASE
        WHEN {CustomerID} = '' THEN 'no customer'
        WHEN starts_with({InvoiceNo}, 'C') THEN 'cancellation'
        WHEN coalesce(TRY_CAST({Quantity} AS BIGINT), 0) <= 0 THEN 'quantity not positive'
        ELSE ''
    END
"""


@dataclass(frozen=True)
class EventFields:
    """An event as SQL expressions over the list `f` of a line's fields.

    time: a TIMESTAMP (local) or TIMESTAMPTZ, NULL for a line that is not in the format.
    time_format: how it is written to the log file.  parameters: values of the expressions.
    """

    time: str
    user: str
    item: str
    weight: str = "'1'"
    exclude: str = "''"
    item_name: str = "''"
    item_group: str = "''"
    time_format: str = "%Y-%m-%dT%H:%M:%S"
    parameters: dict[str, object] = field(default_factory=dict)


def delimited_file(
    path: Path, delimiter: str, n_fields: int, fields: EventFields, has_header: bool = True
) -> RawFile:
    """A file with a header line, or without, and one event in each other line."""
    parameters = {
        "delimiter": delimiter,
        "n_fields": n_fields,
        "header_lines": int(has_header),
        **quote_patterns(delimiter),
    }
    split, other_lines = load_sql("logs/split_csv.sql"), "rowid = 0" if has_header else "false"
    return _raw_file(path, split, QUOTES_BROKEN, fields, parameters, other_lines)


def _raw_file(
    path: Path,
    split: str,
    quotes_broken: str,
    fields: EventFields,
    parameters: dict[str, object],
    other_lines: str,
) -> RawFile:
    """The SELECT from lines to events. split: from `text` to the list `f`, NULL for none."""
    select = load_sql("datasets/delimited.sql").replace("{split}", split)
    select = select.replace("{quotes_broken}", quotes_broken)
    for name in ("time", "user", "item", "weight", "exclude", "item_name", "item_group"):
        select = select.replace(f"{{{name}}}", getattr(fields, name))
    parameters = {**parameters, "time_format": fields.time_format, **fields.parameters}
    return RawFile(path, select, other_lines, parameters)


def read_header(path: Path, delimiter: str, encoding: str = "utf-8-sig") -> list[str]:
    """The names in the first line of a file, plain or gzip."""
    if not path.is_file():
        raise DatasetError(f"{path} is not a file; give the path of the published file")
    try:
        with open_text(path) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as lines:
            text = lines.readline(MAX_LINE_BYTES).rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    return next(csv.reader([text], delimiter=delimiter), [])


def require_header(path: Path, expected: list[str], delimiter: str = ",") -> None:
    """Raise DatasetError unless the header is exactly the published one."""
    header = read_header(path, delimiter)
    if header != expected:
        raise DatasetError(
            f"{path} must begin with the header {delimiter.join(expected)!r}, found "
            f"{delimiter.join(header)[:200]!r}; give the published file"
        )


def csv_file(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for a file of one's own: CSV, JSON lines or Parquet.

    `options` names the columns, the time format and how the file is written.
    """
    _require_valid(options)
    columns = list(dict.fromkeys(_named(options)))
    header = _header_of(path, options)
    where = {name: _position(path, header, name) for name in columns}
    if options.file_format != "csv":  # only these columns are read, in this order
        where = {name: number for number, name in enumerate(columns, start=1)}
    at = {name: f"coalesce(f[{number}], '')" for name, number in where.items()} | {"": "''"}
    event_time, parameters = event_time_sql(options.timestamp_format)
    fields = EventFields(
        time=event_time.replace("time_text", at[options.timestamp]),
        user=at[options.user],
        item=at[options.item],
        weight=at[options.weight] if options.weight else "'1'",
        exclude=_set_aside(options, at) if options.set_aside else "''",
        item_name=at[options.item_name],
        item_group=at[options.item_group],
        time_format="%Y-%m-%dT%H:%M:%S.%f%z",
        parameters=parameters,
    )
    if options.file_format == "csv":
        raw = delimited_file(path, options.delimiter, len(header), fields, options.has_header)
    else:
        raw = _objects_file(path, columns, fields)
    if options.file_format == "parquet":
        texts = parquet_texts(path)
        raw = replace(raw, texts={name: texts[name] for name in columns})
    return Dataset(
        name="csv",
        timezone=options.timezone,
        columns=ColumnSettings(
            weight="weight" if options.weight else "",
            exclude="exclude" if options.set_aside else "",
        ),
        files=(replace(raw, encoding=options.encoding, advice=partial(_advice, path, options)),),
        rules=f"columns {', '.join(columns)}; times as {options.timestamp_format}",
    )


def _require_valid(options: ImportOptions) -> None:
    """The same rules as for log files, in the words of the options."""
    require_readable(options.delimiter, options.encoding)
    try:
        LogSettings(timezone=options.timezone, timestamp_format=options.timestamp_format)
    except InvalidSetting as error:
        words = str(error).replace("logs.timezone", "--timezone").replace("; correct it there", "")
        words = words.replace("logs.timestamp_format", "--timestamp-format")
        raise DatasetError(words) from None


def _header_of(path: Path, options: ImportOptions) -> list[str]:
    """The names of the columns of a file; numbers where there is no header."""
    if options.file_format == "parquet":
        return list(parquet_texts(path))
    if options.file_format == "jsonl":
        return list(dict.fromkeys(_named(options)))  # a line may lack any of them
    header = read_header(path, options.delimiter, _encoding_of(options))
    return header if options.has_header else [str(n) for n in range(1, len(header) + 1)]


def _named(options: ImportOptions) -> list[str]:
    names = (options.user, options.item, options.timestamp, options.weight)
    return [name for name in (*names, options.item_name, options.item_group) if name]


def _encoding_of(options: ImportOptions) -> str:
    return "utf-8-sig" if options.encoding == "utf-8" else options.encoding


def _set_aside(options: ImportOptions, at: dict[str, str]) -> str:
    """Why a line is no event, as the source itself says it; '' for an event."""
    weight = f"coalesce(TRY_CAST({at[options.weight]} AS DOUBLE), 0) <= 0"
    of_weight = f"WHEN {weight} THEN 'weight not above 0'" if options.weight else ""
    return (
        f"CASE WHEN {at[options.user]} = '' THEN 'no user' "
        f"WHEN {at[options.item]} = '' THEN 'no item' {of_weight} ELSE '' END"
    )


def _objects_file(path: Path, columns: list[str], fields: EventFields) -> RawFile:
    """A file with one JSON object per line."""
    keys = {f"key_{number}": f'$."{name}"' for number, name in enumerate(columns)}
    texts = ", ".join(f"json_extract_string(text, ${key})" for key in keys)
    is_object = "CASE WHEN json_valid(text) THEN json_type(text) = 'OBJECT' END"
    split = f"CASE WHEN {is_object} THEN [{texts}] END"
    parameters = {"n_fields": len(columns), "header_lines": 0, **keys}
    return _raw_file(path, split, "false", fields, parameters, other_lines="false")


def parsed_rows(path: Path, options: ImportOptions, n: int) -> list[tuple[str, ...]]:
    """The first rows as an import reads them: user, item, time, weight and name of the item.

    A time that is not understood is shown as such.
    """
    sample = sample_of(path, _given(options))
    names = [options.user, options.item, options.timestamp, options.weight, options.item_name]
    columns = [sample.column(name)[:n] if name else [] for name in names]
    expression, parameters = event_time_sql(options.timestamp_format)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = $zone", {"zone": options.timezone})
        for at, time in enumerate(columns[2]):
            read = connection.execute(
                f"SELECT strftime({expression}, '%Y-%m-%d %H:%M:%S') FROM (SELECT $t AS time_text)",  # noqa: S608
                {**parameters, "t": time},
            ).fetchall()[0][0]
            columns[2][at] = read or f"not understood: {time}"
    rows = range(len(columns[2]))
    return [tuple(column[at] if column else "" for column in columns) for at in rows]


def _given(options: ImportOptions) -> dict[str, Any]:
    return {f.name: getattr(options, f.name) for f in dataclass_fields(options)}


def _advice(path: Path, options: ImportOptions) -> str:
    """What to say about lines that were not understood: the time format that would fit."""
    sample = sample_of(path, _given(options))
    option, present = "--timestamp-format", options.timestamp_format
    return format_advice(sample.column(options.timestamp), option, present)


def _position(path: Path, header: list[str], name: str) -> int:
    if '"' in name or header.count(name) != 1:
        raise DatasetError(
            f"{path} must have exactly one column {name!r}, found {header[:20]}; choose columns "
            "with --user, --item, --timestamp, --weight, --item-name, --item-group and --delimiter"
            f" (one of {', '.join(map(repr, FIELD_DELIMITERS))})"
        )
    return header.index(name) + 1


def online_retail(path: Path, _: ImportOptions) -> Dataset:
    """UCI Online Retail, `online_retail.csv` or `.csv.gz`: invoice lines of a UK gift shop.

    With the column `Description`, as published, or without. A line is one interaction of weight
    1. Lines without a customer, cancellations (the invoice number begins with C) and lines whose
    quantity is not positive stay in the log files, set aside with their reason: they are counted
    in the ledger and are no events.
    """
    header = read_header(path, ",")
    published = [name for name in header if name != _DESCRIPTION]
    if published != _ONLINE_RETAIL:
        require_header(path, _ONLINE_RETAIL)
    at = {name: f"f[{header.index(name) + 1}]" for name in header}
    fields = EventFields(
        time=f"coalesce(try_strptime({at['InvoiceDate']}, '%Y-%m-%d %H:%M:%S'), "
        f"try_strptime({at['InvoiceDate']}, '%m/%d/%Y %H:%M'))",
        user=at["CustomerID"],
        item=at["StockCode"],
        exclude=_EXCLUDE.format(**at),
        item_name=at.get(_DESCRIPTION, "''"),
    )
    raw = delimited_file(path, ",", len(header), fields)
    return Dataset(
        name="online-retail",
        timezone="Europe/London",
        columns=ColumnSettings(exclude="exclude"),
        files=(raw,),
        rules="set aside: lines without a customer, cancellations, quantities not positive",
    )
