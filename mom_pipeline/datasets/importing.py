"""Import of a dataset by its adapter: raw lines in, one log file per day out, none lost.

An adapter is a SELECT from physical lines to events. Lines are staged in DuckDB, which spills to
disk. The days are put in place when all are complete: an import that was killed begins again.
"""

import gzip
import io
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import IO, Any, cast

import duckdb
from pydantic import TypeAdapter

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.catalogue import Catalogue, Item, tidy
from mom_pipeline.core.files import sync_folder, write_bytes, write_text
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.datasets.columns import is_lending, is_return
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.logfiles import FIRST_DAY, LAST_DAY, LogFile, discover
from mom_pipeline.logs.readers import (
    NOT_UNDERSTOOD,
    Layout,
    Query,
    delimited_fields,
    filled,
    stage_lines,
)
from mom_pipeline.logs.scan import QUARANTINED_CHARACTERS, Progress, scan_file
from mom_pipeline.settings import SETTINGS_FILE, ColumnSettings, Settings
from mom_pipeline.settings_file import declare_first_day, with_values, write_values
from mom_pipeline.warehouse.connection import Connection, load_sql, options_of, scalar

SUMMARY_FILE = "dataset.json"
_MOST_TYPES = 50
# Lines that are shown of every reason.
_EXAMPLES = 3
_OTHER_FOLDER = "choose another data folder: MOM_DATA_DIR=data/{} mom-pipeline import …"


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
    event: str = "''"
    exclude: str = "''"
    item_name: str = "''"
    item_group: str = "''"
    time_format: str = "%Y-%m-%dT%H:%M:%S"
    parameters: Mapping[str, object] = field(default_factory=dict)

    def select(self, lines: Query) -> Query:
        """Return the SELECT from lines, as `delimited_fields` gives them, to `dataset_events`."""
        names = [f.name for f in fields(self) if f.name not in ("time_format", "parameters")]
        fragments = {name: getattr(self, name) for name in names} | {"fields": lines.sql}
        parameters = {
            **lines.parameters,
            **self.parameters,
            "time_format": self.time_format,
            "not_understood": NOT_UNDERSTOOD,
            "shown_characters": QUARANTINED_CHARACTERS,
            "typed": self.event != "''",
        }
        return Query(filled(load_sql("datasets/events.sql"), fragments), parameters)


@dataclass(frozen=True)
class RawFile:
    """A published file and the SELECT that reads its lines from `staged_lines` (rowid, text).

    other_lines: a condition for records that are no event by their format.
    texts: of a Parquet file, the expressions of its columns as text, by name.
    """

    path: Path
    select: Query
    other_lines: str = "false"
    encoding: str = "utf-8"
    layout: Layout | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def delimited_file(path: Path, layout: Layout, events: EventFields, **options: Any) -> RawFile:
    """A file of delimited text. options: of RawFile."""
    return RawFile(path, events.select(delimited_fields(layout)), layout=layout, **options)


@dataclass(frozen=True)
class Dataset:
    """How a dataset is read and what its log files look like.

    items: names that come in a file of their own.  finish: what is left of all events.
    remedies: what would mend lines that are malformed, by the beginning of the reason.
    event_weights: how much each type counts; those of types that are not given are measured.
    """

    name: str
    files: tuple[RawFile, ...]
    rules: str
    timezone: str = "UTC"
    columns: ColumnSettings = field(default_factory=lambda: ColumnSettings(exclude="exclude"))
    train_days: Callable[[date], bool] | None = None
    items: Callable[[], Iterable[Item]] = lambda: ()
    finish: Callable[[Connection], None] = lambda connection: None
    remedies: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    event_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def declared(self) -> dict[str, Any]:
        """The settings that its log files are read by."""
        return {"logs.timezone": self.timezone, "logs.columns": asdict(self.columns)}


@dataclass(frozen=True)
class Rest:
    """Lines that are no events, for one reason, and the first of them."""

    reason: str
    malformed: bool
    n: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventType:
    """A type of events: how many, how often the rarest type follows, and how much it counts."""

    event: str
    n: int
    rate: float
    weight: float


@dataclass(frozen=True)
class ImportSummary:
    """What an import wrote; kept as `dataset.json` in the data folder.

    rows: in the log files, with those of `rest`, which are set aside there with their reasons.
    returns: rows that take an earlier one away.
    """

    dataset: str
    rules: str
    lines: int
    lines_without_event: int
    lines_filtered: int
    rows: int
    days: int
    first_day: date
    last_day: date
    train_days: tuple[date, ...] = ()
    test_days: tuple[date, ...] = ()
    files_without_end: tuple[str, ...] = ()
    rest: tuple[Rest, ...] = ()
    types: tuple[EventType, ...] = ()
    returns: int = 0

    @property
    def taken(self) -> int:
        return self.rows - sum(part.n for part in self.rest)

    @property
    def without_examples(self) -> "ImportSummary":
        """As it is kept: lines of people are in the logs alone, from which they can be erased."""
        return replace(self, rest=tuple(replace(part, examples=()) for part in self.rest))


_SUMMARY = TypeAdapter(ImportSummary)


def import_dataset(
    dataset: Dataset, settings: Settings, progress: Progress = lambda n_bytes: None
) -> ImportSummary:
    """Write the daily log files of a dataset; DatasetError where lines or the folder do not fit.

    progress: receives bytes read.
    """
    _require_fitting_settings(dataset, settings)
    _require_no_other_logs(dataset, settings)
    with (
        scratch_folder(settings, "import") as scratch,
        duckdb.connect(config=options_of(settings, scratch)) as connection,
    ):
        connection.execute("SET TimeZone = $zone", {"zone": dataset.timezone})
        summary = _stage_events(connection, dataset, settings, scratch, progress)
        _require_few_malformed(dataset, summary, settings.logs.max_reject_share)
        connection.execute(load_sql("datasets/place_rest.sql"))
        written = _write_days(connection, dataset, scratch)
        rows = connection.execute(load_sql("datasets/item_names.sql")).fetchall()
        named = [Item(item, tidy(name), group) for item, name, group in rows]
        named += dataset.items()
        if named:  # what a person wrote there stays
            Catalogue.open(settings.data_dir).with_missing(named).save(settings.data_dir)
        _write_settings(dataset, summary, settings, written)
        kept = _SUMMARY.dump_json(summary.without_examples, indent=2)
        write_bytes(settings.data_dir / SUMMARY_FILE, kept)
        _publish(written, settings.logs_dir)
    return summary


def read_summary(settings: Settings) -> ImportSummary | None:
    """The summary of the dataset that was imported into this data folder, if any."""
    path = settings.data_dir / SUMMARY_FILE
    return _SUMMARY.validate_json(path.read_bytes()) if path.exists() else None


def day_of_import(settings: Settings) -> date | None:
    """The day of an import of a single day, which one of the same rows again has, too."""
    summary = read_summary(settings)
    return summary.first_day if summary and summary.days == 1 else None


def is_imported_otherwise(dataset: Dataset, settings: Settings) -> bool:
    """Tell whether a data folder was made of an import with other options."""
    summary = read_summary(settings)
    return summary is not None and (
        (summary.dataset, summary.rules) != (dataset.name, dataset.rules)
        or not _fits(dataset, settings)
    )


def n_other_logs(settings: Settings) -> int:
    """The log files that the last import did not write, such as those of later days."""
    summary, there = read_summary(settings), discover(settings.logs_dir).files
    return len(there) - (summary.days if summary else 0)


def begin_again(dataset: Dataset, settings: Settings) -> None:
    """Remove what was made of an import; what a person wrote, or had erased, stays."""
    for folder in (
        *(settings.logs_dir, settings.artifacts_dir, settings.models_dir, settings.reports_dir),
        *(settings.exports_dir, settings.comparisons_dir),
    ):
        shutil.rmtree(folder, ignore_errors=True)
    for path in settings.data_dir.glob(f"{settings.warehouse_path.name}*"):
        path.unlink()
    declared = {**dataset.declared, "logs.delimiter": ",", "pipeline.start_date": ""}
    write_values(settings.data_dir / SETTINGS_FILE, declared)
    (settings.data_dir / SUMMARY_FILE).unlink(missing_ok=True)  # last: one killed begins again


def _stage_events(
    connection: Connection, dataset: Dataset, settings: Settings, scratch: Path, progress: Progress
) -> ImportSummary:
    """Fill `dataset_events`."""
    connection.execute(load_sql("datasets/dataset_events.sql"))
    lines = without = 0
    without_end = []
    for raw in dataset.files:
        of_file, ended = _stage_lines(connection, raw, scratch, progress)
        lines += of_file
        without += _add_events(connection, raw, of_file)
        without_end += [] if ended else [raw.path.name]
    connection.execute("DROP TABLE staged_lines")
    dataset.finish(connection)
    types = _event_types(connection, dataset, dict(settings.logs.event_weights))
    returns = _returns(connection, types)
    rest = connection.execute(load_sql("datasets/rest.sql"), {"n_examples": _EXAMPLES}).fetchall()
    of_rest = tuple(Rest(why, bad, n, tuple(examples)) for why, bad, n, examples in rest)
    if of_rest and not scalar(connection, "SELECT count(day) FROM dataset_events"):
        raise DatasetError(
            f"no line is an event; nothing was written. {told_rest(of_rest, dataset)}"
        )
    days, is_train = _event_days(connection), dataset.train_days
    rows = scalar(connection, "SELECT count(*) FROM dataset_events")
    return ImportSummary(
        dataset=dataset.name,
        rules=dataset.rules,
        lines=lines,
        lines_without_event=without,
        lines_filtered=lines - without - rows,
        rows=rows,
        days=len(days),
        first_day=days[0],
        last_day=days[-1],
        train_days=tuple(day for day in days if is_train(day)) if is_train else (),
        test_days=tuple(day for day in days if not is_train(day)) if is_train else (),
        files_without_end=tuple(without_end),
        rest=of_rest,
        types=types,
        returns=returns,
    )


def _event_types(
    connection: Connection, dataset: Dataset, stored: Mapping[str, float]
) -> tuple[EventType, ...]:
    """Weigh event types, 1 to 10, as given or by how often the rarest follows; returns below 0.

    stored: of an earlier import, which stay; a type that is not among them is not counted.
    """
    if not dataset.columns.event:
        return ()
    counts: dict[str, int] = dict(
        connection.execute(
            "SELECT event, count(*) AS n FROM dataset_events "
            "WHERE problem IS NULL AND exclude = '' GROUP BY ALL ORDER BY n DESC, event"
        ).fetchall()
    )
    if len(counts) > _MOST_TYPES:
        raise DatasetError(
            f"expected at most {_MOST_TYPES} types of events, found {len(counts)}, such as "
            f"{min(counts)!r}; give the column of the types (--event), or --event '' for none"
        )
    returns = [event for event in counts if is_return(event)]
    # What was lent comes back: it was wanted all the same.
    back = 0.0 if any(map(is_lending, counts)) else -1.0
    query = load_sql("datasets/type_rates.sql")
    found = connection.execute(query, {"returns": returns}).fetchall()
    rates = {event: rate for event, _, rate in found}
    # With half an event more, so that what never happened is rare and no more.
    telling = {event: (rate * n + 0.5) / (n + 1) for event, n, rate in found}
    if not any(rates.values()):  # nothing followed anything: one day tells nothing
        telling = {}
    least = min(telling.values(), default=1.0)

    def weight(event: str) -> float:
        if stored and event not in dataset.event_weights:
            return stored.get(event, 0.0)
        measured = back if event in returns else min(10.0, telling.get(event, least) / least)
        return float(dataset.event_weights.get(event, round(measured)))

    return tuple(EventType(e, n, rates.get(e, 0.0), weight(e)) for e, n in counts.items())


def _returns(connection: Connection, types: Iterable[EventType]) -> int:
    """Set aside the returns of what was not taken before; count the others."""
    returns = {"returns": [one.event for one in types if one.weight < 0]}
    connection.execute(load_sql("datasets/orphaned_returns.sql"), returns)
    return scalar(
        connection,
        "SELECT count(*) FROM dataset_events WHERE problem IS NULL AND exclude = '' "
        "AND (starts_with(weight, '-') OR list_contains($returns::VARCHAR[], event))",
        returns,
    )


def _require_few_malformed(dataset: Dataset, summary: ImportSummary, most: float) -> None:
    malformed = [part for part in summary.rest if part.malformed]
    if (n := sum(part.n for part in malformed)) > most * summary.rows:
        raise DatasetError(
            f"{n:,} of {summary.rows:,} lines are malformed, more than logs.max_reject_share = "
            f"{most:g}; nothing was written. {told_rest(malformed, dataset)}\nOr do without them: "
            f"MOM_LOGS__MAX_REJECT_SHARE={math.ceil(100 * n / summary.rows) / 100:g}"
        )


def told_rest(rest: Iterable[Rest], dataset: Dataset) -> str:
    """All reasons at once, each with examples and what would mend it."""
    told = ""
    for part in rest:
        mending = (mend() for r, mend in dataset.remedies.items() if part.reason.startswith(r))
        remedy, examples = next(mending, "") or "correct them", "; ".join(part.examples)
        told += f"\n  {part.reason}: {part.n:,} ({examples}). To mend: {remedy}"
    return told


def _stage_lines(
    connection: Connection, raw: RawFile, scratch: Path, progress: Progress
) -> tuple[int, bool]:
    """Fill `staged_lines`; return how many there are, and whether the last one has its end."""
    path = raw.path if raw.encoding == "utf-8" or raw.texts else _as_utf8(raw, scratch)
    file_format = "parquet" if raw.texts else "csv"
    file = LogFile(date.min, raw.path.name, path, file_format, is_gzip(path))
    scan = scan_file(file, scratch, progress)
    lines = stage_lines(connection, file, scan, raw.texts, raw.layout)
    for copy in {scan.readable, path} - {raw.path}:
        copy.unlink()
    return lines, scan.ended


def _as_utf8(raw: RawFile, scratch: Path) -> Path:
    """Write a copy of a file in UTF-8."""
    copy = scratch / "as-utf-8"
    try:
        with (
            open_text(raw.path) as stream,
            io.TextIOWrapper(stream, raw.encoding, newline="") as text,
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(text, out)
    except (UnicodeError, OSError, EOFError) as error:
        raise DatasetError(f"{raw.path} cannot be read as {raw.encoding}: {error}") from error
    return copy


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


def open_text(path: Path) -> IO[bytes]:
    """Open a file, plain or gzip."""
    return cast("IO[bytes]", gzip.open(path)) if is_gzip(path) else path.open("rb")


def _add_events(connection: Connection, raw: RawFile, lines: int) -> int:
    """Add the events of the staged lines; return how many lines carry none by their format."""
    parameters = {**raw.select.parameters, "file": raw.path.name}
    events = scalar(connection, f"INSERT INTO dataset_events {raw.select.sql}", parameters)
    no_event = f"SELECT count(*) FROM staged_lines WHERE text IS NULL OR {raw.other_lines}"  # noqa: S608
    without = scalar(connection, no_event)
    if events + without != lines:
        raise DatasetError(
            f"{raw.path} has {lines} lines, but {events} events and {without} other "
            "lines were read; nothing was written. Report this"
        )
    return without


def _event_days(connection: Connection) -> list[date]:
    rows = connection.execute(
        "SELECT DISTINCT day FROM dataset_events WHERE day IS NOT NULL ORDER BY day"
    ).fetchall()
    if not rows:
        raise DatasetError("the dataset holds no event; nothing was written")
    days = [row[0] for row in rows]
    # DuckDB returns a day as text when Python has no such date.
    odd = [day for day in days if isinstance(day, str) or not FIRST_DAY <= day <= LAST_DAY]
    if odd:
        raise DatasetError(
            f"expected events from {FIRST_DAY} to {LAST_DAY}, found one of {odd[0]}; nothing was "
            "written. Correct the times, or say how they are written (--timestamp-format)"
        )
    return days


def _write_days(connection: Connection, dataset: Dataset, scratch: Path) -> dict[date, Path]:
    """Write one file per day, in the order of the source, to the scratch folder."""
    folder = scratch / "logs"
    folder.mkdir()
    written = {day: folder / f"{day}.csv.gz" for day in _event_days(connection)}
    names = "".join(f", {name}" for name in ("weight", "event") if getattr(dataset.columns, name))
    # Without quotes for what is not set aside: read faster.
    query = f"""
        COPY (
            SELECT user_id AS "user", item_id AS item, time_text AS timestamp,
                nullif(exclude, '') AS exclude {names}
            FROM dataset_events WHERE day = $day ORDER BY file, line
        ) TO $target (FORMAT csv, HEADER, COMPRESSION gzip)
    """  # noqa: S608

    def write(day: date) -> None:
        with connection.cursor() as own:
            own.execute(query, {"day": day, "target": str(written[day])})
        with written[day].open("rb") as complete:
            os.fsync(complete.fileno())

    map_blocks(write, written)
    return written


def _publish(written: Mapping[date, Path], logs_dir: Path) -> None:
    """Put all days in place: at once where there is no folder yet, or else one by one."""
    folder = next(iter(written.values())).parent
    if logs_dir.exists():
        for path in written.values():
            path.replace(logs_dir / path.name)
        sync_folder(logs_dir)
    else:
        folder.rename(logs_dir)
        sync_folder(logs_dir.parent)


def _require_fitting_settings(dataset: Dataset, settings: Settings) -> None:
    """An existing pipeline.toml must read what the adapter writes."""
    path = settings.data_dir / SETTINGS_FILE
    if not _fits(dataset, settings):
        raise DatasetError(
            f"{path} does not fit {dataset.name}; it needs\n\n"
            f"{with_values('', dataset.declared)}\nSet that, or "
            f"{_OTHER_FOLDER.format(dataset.name)}"
        )


def _fits(dataset: Dataset, settings: Settings) -> bool:
    path, logs = settings.data_dir / SETTINGS_FILE, settings.logs
    declared = (logs.timezone, logs.columns, logs.delimiter)
    return not path.exists() or declared == (dataset.timezone, dataset.columns, ",")


def _require_no_other_logs(dataset: Dataset, settings: Settings) -> None:
    """Refuse a folder with other logs: two sources would be mixed silently."""
    previous = read_summary(settings)
    if previous is not None and previous.dataset == dataset.name:
        return
    names = [file.source_file for file in discover(settings.logs_dir).files]
    if names:
        raise DatasetError(
            f"{settings.logs_dir} already holds {len(names)} log files, such as {min(names)}; "
            f"{_OTHER_FOLDER.format(dataset.name)}"
        )


def _write_settings(
    dataset: Dataset, summary: ImportSummary, settings: Settings, days: Iterable[date]
) -> None:
    path = settings.data_dir / SETTINGS_FILE
    if not path.exists():
        write_text(
            path, with_values(f"# Written by `import {dataset.name}`.\n\n", dataset.declared)
        )
    if summary.types:
        stored = dict(settings.logs.event_weights)
        found = {one.event: one.weight for one in summary.types}
        # A type that is not counted changes nothing, so no day is stale for it.
        weights = stored | {e: w for e, w in found.items() if w or e in stored or not stored}
        write_values(path, {"logs.event_weights": weights})
    declare_first_day(settings, list(days))
