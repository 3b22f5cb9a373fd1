"""Any CSV file, by the names of its columns."""

from pathlib import Path

from mom_pipeline.datasets.delimited import delimited_file, read_header
from mom_pipeline.datasets.importing import Dataset
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import event_time_sql
from mom_pipeline.settings import DELIMITERS, ColumnSettings, LogSettings

NAME = "csv"


def dataset(path: Path, options: ImportOptions) -> Dataset:
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
    raw = delimited_file(
        path,
        options.delimiter,
        len(header),
        time=event_time.replace("time_text", at[options.timestamp]),
        user=at[options.user],
        item=at[options.item],
        weight=at[options.weight] if options.weight else "'1'",
        time_format="%Y-%m-%dT%H:%M:%S.%f%z",
        parameters=parameters,
    )
    return Dataset(
        name=NAME,
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
