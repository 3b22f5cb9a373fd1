"""Delimited files: the SELECT from lines to events, any CSV by its columns, and Online Retail."""

import csv
import gzip
from dataclasses import dataclass, field
from pathlib import Path

from mom_pipeline.datasets.importing import Dataset, ImportOptions, RawFile
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import QUOTES_BROKEN, event_time_sql, quote_patterns
from mom_pipeline.logs.scan import MAX_LINE_BYTES
from mom_pipeline.settings import DELIMITERS, ColumnSettings, LogSettings
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
_EXCLUDE = """
    CASE
        WHEN f[6] = '' THEN 'no customer'
        WHEN starts_with(f[1], 'C') THEN 'cancellation'
        WHEN coalesce(TRY_CAST(f[3] AS BIGINT), 0) <= 0 THEN 'quantity not positive'
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
    time_format: str = "%Y-%m-%dT%H:%M:%S"
    parameters: dict[str, object] = field(default_factory=dict)


def delimited_file(path: Path, delimiter: str, n_fields: int, fields: EventFields) -> RawFile:
    """A file with a header line, and one event in each line after it."""
    select = load_sql("datasets/delimited.sql")
    select = select.replace("{split}", load_sql("logs/split_csv.sql"))
    select = select.replace("{quotes_broken}", QUOTES_BROKEN)
    for name in ("time", "user", "item", "weight", "exclude"):
        select = select.replace(f"{{{name}}}", getattr(fields, name))
    parameters = {
        "delimiter": delimiter,
        "n_fields": n_fields,
        "time_format": fields.time_format,
        **quote_patterns(delimiter),
        **fields.parameters,
    }
    return RawFile(path, select, other_lines="rowid = 0", parameters=parameters)


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
    header = read_header(path, delimiter)
    if header != expected:
        raise DatasetError(
            f"{path} must begin with the header {delimiter.join(expected)!r}, found "
            f"{delimiter.join(header)[:200]!r}; give the published file"
        )


def csv_file(path: Path, options: ImportOptions) -> Dataset:
    """The adapter for one CSV with a header; `options` names the columns and the time format."""
    # The same rules as for log files, with the same errors.
    LogSettings(options.timezone, options.delimiter, options.timestamp_format)
    header = read_header(path, options.delimiter)
    at = {
        name: f"f[{_position(path, header, name)}]"
        for name in (options.user, options.item, options.timestamp, options.weight)
        if name
    }
    event_time, parameters = event_time_sql(options.timestamp_format)
    fields = EventFields(
        time=event_time.replace("time_text", at[options.timestamp]),
        user=at[options.user],
        item=at[options.item],
        weight=at[options.weight] if options.weight else "'1'",
        time_format="%Y-%m-%dT%H:%M:%S.%f%z",
        parameters=parameters,
    )
    raw = delimited_file(path, options.delimiter, len(header), fields)
    return Dataset(
        name="csv",
        timezone=options.timezone,
        columns=ColumnSettings(weight="weight" if options.weight else ""),
        files=(raw,),
        rules=f"columns {', '.join(at)}; times as {options.timestamp_format}",
    )


def _position(path: Path, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        raise DatasetError(
            f"{path} must have exactly one column {name!r}, found {header[:20]}; choose columns "
            f"with --user, --item, --timestamp, --weight and --delimiter (one of {DELIMITERS})"
        )
    return header.index(name) + 1


def online_retail(path: Path, _: ImportOptions) -> Dataset:
    """UCI Online Retail, `online_retail.csv` or `.csv.gz`: invoice lines of a UK gift shop.

    A line is one interaction of weight 1. Lines without a customer, cancellations (the invoice
    number begins with C) and lines whose quantity is not positive stay in the log files, set
    aside with their reason: they are counted in the ledger and are no events.
    """
    require_header(path, _ONLINE_RETAIL)
    fields = EventFields(
        time="try_strptime(f[4], '%Y-%m-%d %H:%M:%S')",
        user="f[6]",
        item="f[2]",
        exclude=_EXCLUDE,
    )
    raw = delimited_file(path, ",", len(_ONLINE_RETAIL), fields)
    return Dataset(
        name="online-retail",
        timezone="Europe/London",
        columns=ColumnSettings(exclude="exclude"),
        files=(raw,),
        rules="set aside: lines without a customer, cancellations, quantities not positive",
    )
