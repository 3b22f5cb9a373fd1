"""Log files into the warehouse: exactly once, one transaction per file.

A file's rows, its quarantine and its ledger entry are replaced together. So the same file
again changes nothing, a changed file replaces exactly its own rows, and an ingest that was
killed, or whose COMMIT raised, converges when it is repeated. A file that is refused stops no
other.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Literal

import duckdb

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import LogFileError, LogFileNotRead, MomError
from mom_pipeline.logs.decisions import Refusal, record_refusals, refusals_by_file, remove_refusal
from mom_pipeline.logs.ledger import (
    DELIVERED_TABLES,
    LedgerEntry,
    insert_entry,
    ledger_by_file,
    ledger_entries,
    reject_reasons,
)
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.readers import (
    ERASED,
    NOT_UNDERSTOOD,
    SET_ASIDE_PREFIX,
    Query,
    event_query,
    format_advice,
    rowless_lines,
    stage_log,
)
from mom_pipeline.logs.scan import (
    QUARANTINED_CHARACTERS,
    Progress,
    Scan,
    no_progress,
    require_unchanged,
    scan_file,
)
from mom_pipeline.settings import LogSettings, Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar, transaction
from mom_pipeline.warehouse.erased import erased_users

# The clock of a file system runs in steps: a file changed this long before it was ingested was not
# changed since.
_CLOCK_STEP = timedelta(seconds=1)

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
    of_day = [file for file in files if file.day == day]
    return list(ingest_files(warehouse, _not_refused(warehouse, of_day)))


def pending_files(warehouse: Warehouse) -> list[LogFile]:
    """The log files that are new or changed, but for those refused or dropped as they are."""
    ledger, settings = ledger_by_file(warehouse), warehouse.settings

    def is_ingested(file: LogFile) -> bool:
        entry = ledger.get(file.source_file)
        try:
            return entry is not None and is_unchanged(file, entry, settings)
        except LogFileNotRead:
            return False

    changed = [file for file in discover(settings.logs_dir).files if not is_ingested(file)]
    return _not_refused(warehouse, changed)


def _not_refused(warehouse: Warehouse, files: Iterable[LogFile]) -> list[LogFile]:
    refused, settings = refusals_by_file(warehouse), warehouse.settings
    return [
        file
        for file in files
        if file.source_file not in refused or not refused[file.source_file].holds(file, settings)
    ]


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
    with warehouse.kept_open():
        for file in files:
            try:
                yield ingest_file(warehouse, file, partial(progress, file))
            except LogFileNotRead as error:
                yield IngestFailure(file, error)
            except LogFileError as error:
                refusal = Refusal.of_file(file, warehouse.settings, str(error))
                with warehouse.connect() as connection:
                    record_refusals(connection, [refusal])
                yield IngestFailure(file, error)


def ingest_file(
    warehouse: Warehouse, file: LogFile, progress: Progress = no_progress
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
            kind = LogFileNotRead if _is_of_the_machine(error) else LogFileError
            raise kind(
                f"{file.path} was not ingested: {error}; the warehouse is as before, or "
                "complete if the disk filled at the very end. Repeat the ingest"
            ) from error
    return IngestResult(**vars(entry), file=file, status="replaced" if known else "new")


def _is_of_the_machine(error: duckdb.Error) -> bool:
    """Return whether the disk or the memory failed, and not the file."""
    exhausted = (duckdb.OutOfMemoryException, duckdb.FatalException)
    texts = ("No space left", "Could not write", "Input/output error", "Disk quota")
    return isinstance(error, exhausted) or any(text in str(error) for text in texts)


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
    lines = stage_log(connection, file, scan, logs)
    rowless = rowless_lines(connection)
    require_unchanged(file, scan)  # DuckDB has read it a second time
    query = event_query(file, scan.readable, logs, erased_users(warehouse))
    with transaction(connection):
        source = {"source_file": file.source_file}
        for table in DELIVERED_TABLES:
            connection.execute(f"DELETE FROM {table} WHERE source_file = $source_file", source)  # noqa: S608
        remove_refusal(connection, file.source_file)
        accepted = _insert_accepted(connection, file, query)
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
        insert_entry(connection, entry)
    return entry


def _insert_accepted(connection: Connection, file: LogFile, query: Query) -> int:
    return scalar(
        connection,
        f"""
        INSERT INTO raw_logs
        {query.sql}
        SELECT $source_file, line, $day::DATE, event_time, user_id, item_id, weight
        FROM events WHERE reason IS NULL
        """,  # noqa: S608
        query.parameters | {"source_file": file.source_file, "day": file.day.isoformat()},
    )


def _insert_rejected(connection: Connection, file: LogFile, query: Query) -> dict[str, int]:
    """Fill the quarantine; the number of rows per reason, most frequent first."""
    connection.execute(
        f"""
        INSERT INTO quarantine
        {query.sql}
        SELECT
            $source_file, line, $day::DATE,
            CASE WHEN reason = $erased THEN ''
                 WHEN starts_with(text, $mark) THEN split_part(text, $mark, 3)
                 ELSE left(coalesce(text, ''), $quarantined_characters) END,
            reason
        FROM events WHERE reason IS NOT NULL
        """,  # noqa: S608
        query.parameters
        | {
            "source_file": file.source_file,
            "day": file.day.isoformat(),
            "quarantined_characters": QUARANTINED_CHARACTERS,
            "erased": ERASED,
        },
    )
    return reject_reasons(connection, source_file=file.source_file)


def _require_few_rejects(
    connection: Connection, file: LogFile, query: Query, entry: LedgerEntry, logs: LogSettings
) -> None:
    """Refuse a file with too many malformed rows; those that the source set aside are none."""
    malformed = entry.rows_rejected - entry.rows_set_aside
    rows = entry.rows_accepted + entry.rows_rejected
    if malformed / max(rows, 1) <= logs.max_reject_share:
        return
    reasons = {
        reason: n
        for reason, n in entry.reject_reasons.items()
        if not reason.startswith(SET_ASIDE_PREFIX)
    }
    shown = ", ".join(f"{reason}: {n}" for reason, n in list(reasons.items())[:5])
    remedy = _time_advice(connection, query, logs) if NOT_UNDERSTOOD in reasons else ""
    raise LogFileError(
        f"{file.path}: {malformed} of {rows} rows are malformed ({shown}), more than "
        f"logs.max_reject_share = {logs.max_reject_share:g}; nothing was stored. "
        f"{remedy or 'Correct and deliver the file again, or raise the setting'}"
    )


def _time_advice(connection: Connection, query: Query, logs: LogSettings) -> str:
    """The format that would read the times that were not understood; "" for none."""
    rows = connection.execute(
        f"{query.sql} SELECT time_text FROM typed WHERE event_time IS NULL LIMIT 500",  # noqa: S608
        query.parameters,
    ).fetchall()
    option, present = "logs.timestamp_format =", logs.timestamp_format
    return format_advice([str(text) for (text,) in rows if text], option, present)
