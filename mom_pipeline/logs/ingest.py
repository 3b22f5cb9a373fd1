"""Log files into the warehouse: exactly once, one transaction per file.

A file's rows, its quarantine and its ledger entry are replaced together: an ingest that was killed,
or whose COMMIT raised, converges when it is repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Literal

import duckdb

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import LogFileError, LogFileNotRead, MomError
from mom_pipeline.logs.decisions import Refusal, refusals
from mom_pipeline.logs.ledger import (
    DELIVERED_TABLES,
    LedgerEntry,
    ledger_entries,
    put_entry,
    reject_reasons,
)
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import (
    ERASED,
    NOT_UNDERSTOOD,
    SET_ASIDE_PREFIX,
    Query,
    format_advice,
    rowless_lines,
    stage_log,
)
from mom_pipeline.logs.scan import (
    QUARANTINED_CHARACTERS,
    Progress,
    Scan,
    require_unchanged,
    scan_file,
)
from mom_pipeline.settings import LogSettings, Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql, scalar, transaction
from mom_pipeline.warehouse.erased import erased_users

# The clock of a file system runs in steps: a file changed this long before it was ingested was not
# changed since.
_CLOCK_STEP = timedelta(seconds=1)
# The disk or the memory failed, and not the file.
_EXHAUSTED = (duckdb.OutOfMemoryException, duckdb.FatalException)
_NO_ROOM = ("No space left", "Could not write", "Input/output error", "Disk quota")

FileProgress = Callable[[LogFile, int], None]


@dataclass(frozen=True)
class IngestResult(LedgerEntry):
    """The ledger entry of a file, and what became of it."""

    file: LogFile
    status: Literal["new", "replaced", "unchanged"]


@dataclass(frozen=True)
class IngestFailure:
    """A file that was refused, and why; the warehouse holds what it held before."""

    file: LogFile
    error: MomError


def ingest_day(warehouse: Warehouse, day: date) -> list[IngestResult | IngestFailure]:
    """Ingest the files of one delivery day, except those whose refusal still holds."""
    files = discover(warehouse.settings.logs_dir).files
    with warehouse.opened() as connection:
        refused = {one.source_file: one for one in refusals(connection, day)}
    of_day = [file for file in files if file.day == day]
    return list(ingest_files(warehouse, _not_refused(of_day, refused, warehouse.settings)))


def pending_files(warehouse: Warehouse) -> list[LogFile]:
    """The log files that are new or changed, but for those refused or dropped as they are."""
    ledger, refused = dict[str, LedgerEntry](), dict[str, Refusal]()
    settings = warehouse.settings
    if warehouse.exists():
        with warehouse.reading() as connection:
            ledger = {entry.source_file: entry for entry in ledger_entries(connection)}
            refused = {one.source_file: one for one in refusals(connection)}

    def is_pending(file: LogFile) -> bool:
        try:
            entry = ledger.get(file.source_file)
            return entry is None or not is_unchanged(file, entry, settings)
        except LogFileNotRead:
            return True

    files = filter(is_pending, discover(settings.logs_dir).files)
    return _not_refused(files, refused, settings)


def _not_refused(
    files: Iterable[LogFile], refused: Mapping[str, Refusal], settings: Settings
) -> list[LogFile]:
    known = ((file, refused.get(file.source_file)) for file in files)
    return [file for file, one in known if not (one and one.holds(file, settings))]


def is_unchanged(file: LogFile, entry: LedgerEntry, settings: Settings) -> bool:
    """Whether a file has the bytes of its entry, and the same rules; few are read for it."""
    if entry.settings != settings.logs.reading_rules():
        return False
    try:
        status = file.path.stat()
        if status.st_size != entry.size_bytes:
            return False
        changed = datetime.fromtimestamp(max(status.st_ctime, status.st_mtime), UTC)
        ingested = datetime.fromisoformat(entry.ingested_at)
        # A moment that is still to come says nothing: the clock was set meanwhile.
        if changed + _CLOCK_STEP < ingested <= datetime.now(UTC):
            return True
        return sha256_of(file.path) == entry.sha256
    except OSError as error:
        raise LogFileNotRead(f"{file.path} could not be read: {error}; try again") from error


def ingest_files(
    warehouse: Warehouse,
    files: Iterable[LogFile],
    progress: FileProgress = lambda file, n_bytes: None,
) -> Iterator[IngestResult | IngestFailure]:
    """Ingest files one by one; one that is refused is remembered with its reason."""
    with warehouse.opened():
        for file in files:
            try:
                yield ingest_file(warehouse, file, partial(progress, file))
            except LogFileNotRead as error:
                yield IngestFailure(file, error)
            except LogFileError as error:
                with warehouse.connect() as connection:
                    Refusal.of_file(file, warehouse.settings, str(error)).save(connection)
                yield IngestFailure(file, error)


def ingest_file(
    warehouse: Warehouse, file: LogFile, progress: Progress = lambda n_bytes: None
) -> IngestResult:
    """Bring a log file into the warehouse unless it is there; LogFileError changes nothing."""
    settings, begun = warehouse.settings, datetime.now(UTC)
    with warehouse.opened() as connection, scratch_folder(settings, "ingest") as scratch:
        known = ledger_entries(connection, file.source_file)
        if known and is_unchanged(file, known[0], settings):
            progress(known[0].size_bytes)
            return IngestResult(**vars(known[0]), file=file, status="unchanged")
        try:
            scan = scan_file(file, scratch, progress)
            _require_whole(file, scan, settings.logs)
        except OSError as error:
            raise LogFileNotRead(f"{file.path} could not be read: {error}; try again") from error
        try:
            entry = _replace(warehouse, connection, file, scan, begun)
        except duckdb.Error as error:
            machine = isinstance(error, _EXHAUSTED) or any(t in str(error) for t in _NO_ROOM)
            raise (LogFileNotRead if machine else LogFileError)(
                f"{file.path} was not ingested: {error}; the warehouse is as before, or "
                "complete if the disk filled at the very end. Repeat the ingest"
            ) from error
    return IngestResult(**vars(entry), file=file, status="replaced" if known else "new")


def _require_whole(file: LogFile, scan: Scan, logs: LogSettings) -> None:
    """Refuse a file that differs from `<name>.sha256` beside it, or without one was cut short."""
    beside = file.checksum_path
    if beside.is_file():
        words = beside.read_text(encoding="utf-8", errors="replace").split()
        expected = words[0].lower() if words else "nothing"
        if expected != scan.sha256:
            raise LogFileError(
                f"{file.path} has sha256 {scan.sha256}, but {beside.name} states "
                f"{expected[:64]}; deliver the file again"
            )
    elif logs.require_checksum:
        raise LogFileError(
            f"{file.path} has no {beside.name} beside it, which logs.require_checksum asks for; "
            f"deliver that too: sha256sum {file.path.name} > {beside.name}"
        )
    elif not scan.ended:
        raise LogFileError(
            f"{file.path} may have been cut short: expected a line end after its last line, found "
            f"none. Deliver the file again, or put {beside.name} beside it to confirm its bytes"
        )


def _replace(
    warehouse: Warehouse, connection: Connection, file: LogFile, scan: Scan, begun: datetime
) -> LedgerEntry:
    """Stage the file, then exchange its rows, quarantine and ledger entry in one transaction."""
    logs = warehouse.settings.logs
    lines, query = stage_log(connection, file, scan, logs, erased_users(warehouse))
    rowless = rowless_lines(connection)
    require_unchanged(file, scan)  # DuckDB has read it a second time
    with transaction(connection):
        source = {"source_file": file.source_file}
        for table in (*DELIVERED_TABLES, "refused_files"):
            connection.execute(f"DELETE FROM {table} WHERE source_file = $source_file", source)  # noqa: S608
        taken = load_sql("logs/insert_accepted.sql").replace("{events}", query.sql)
        accepted = scalar(connection, taken, {**query.parameters, **source, "day": file.day})
        rejected = lines - rowless - accepted
        reasons = _insert_rejected(connection, file, query) if rejected else {}
        if rejected != sum(reasons.values()):
            raise LogFileError(
                f"{file.path} has {lines} lines, but {rowless} without a row + {accepted} "
                f"accepted + {sum(reasons.values())} rejected differ from that; nothing was "
                "stored. Report this"
            )
        entry = LedgerEntry(
            source_file=file.source_file,
            delivery_day=file.day,
            size_bytes=scan.size_bytes,
            sha256=scan.sha256,
            lines=lines,
            header_lines=rowless,
            rows_accepted=accepted,
            rows_rejected=rejected,
            rows_set_aside=sum(
                n for reason, n in reasons.items() if reason.startswith(SET_ASIDE_PREFIX)
            ),
            reject_reasons=reasons,
            settings=logs.reading_rules(),
            ingested_at=begun.isoformat(),
        )
        _require_few_rejects(connection, file, query, entry, logs)
        put_entry(connection, entry)
    return entry


def _insert_rejected(connection: Connection, file: LogFile, query: Query) -> dict[str, int]:
    """Fill the quarantine; the number of rows per reason, most frequent first."""
    own = {"source_file": file.source_file, "day": file.day, "erased": ERASED}
    sql = load_sql("logs/insert_rejected.sql").replace("{events}", query.sql)
    shown = {"quarantined_characters": QUARANTINED_CHARACTERS}
    connection.execute(sql, query.parameters | own | shown)
    return reject_reasons(connection, source_file=file.source_file)


def _require_few_rejects(
    connection: Connection, file: LogFile, query: Query, entry: LedgerEntry, logs: LogSettings
) -> None:
    """Refuse a file with too many malformed rows; those that the source set aside are none."""
    malformed = entry.rows_rejected - entry.rows_set_aside
    rows = entry.rows_accepted + entry.rows_rejected
    if malformed / max(rows, 1) <= logs.max_reject_share:
        return
    reasons = [r for r in entry.reject_reasons if not r.startswith(SET_ASIDE_PREFIX)]
    shown = ", ".join(f"{reason}: {entry.reject_reasons[reason]}" for reason in reasons[:5])
    remedy = ""
    if NOT_UNDERSTOOD in reasons:
        times = connection.execute(
            f"{query.sql} SELECT time_text FROM typed WHERE event_time IS NULL LIMIT 500",  # noqa: S608
            query.parameters,
        ).fetchall()
        texts = [str(text) for (text,) in times if text]
        remedy = format_advice(texts, "logs.timestamp_format =", logs.timestamp_format)
    raise LogFileError(
        f"{file.path}: {malformed} of {rows} rows are malformed ({shown}), more than "
        f"logs.max_reject_share = {logs.max_reject_share:g}; nothing was stored. "
        f"{remedy or 'Correct and deliver the file again, or raise the setting'}"
    )
