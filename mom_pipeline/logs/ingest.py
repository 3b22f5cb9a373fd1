"""Log files into the warehouse: exactly once, one transaction per file.

A file's rows, its quarantine and its ledger entry are replaced together. So the same file
again changes nothing, a changed file replaces exactly its own rows, and an ingest that was
killed, or whose COMMIT raised, converges when it is repeated. A file that is refused stops no
other.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Literal

import duckdb

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import (
    LogFileError,
    LogFileNotRead,
    MomError,
)
from mom_pipeline.logs.decisions import Refusal, record_refusals, refusals_by_file, remove_refusal
from mom_pipeline.logs.ledger import (
    DELIVERED_TABLES,
    LedgerEntry,
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
    header_lines,
    stage_log_parquet,
    stage_text,
)
from mom_pipeline.logs.scan import (
    QUARANTINED_CHARACTERS,
    Progress,
    Scan,
    no_progress,
    require_unchanged,
    scan_file,
)
from mom_pipeline.logs.time_formats import format_advice
from mom_pipeline.settings import LogSettings, Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar, transaction
from mom_pipeline.warehouse.erased import erased_users

# The clock of a file system runs in steps: a file changed this long before it was ingested was not
# changed since.
_CLOCK_STEP = timedelta(seconds=1)

FileProgress = Callable[[LogFile, int], None]


@dataclass(frozen=True)
class IngestResult:
    """What happened to one file. Numbers are those of the ledger."""

    file: LogFile
    status: Literal["new", "replaced", "unchanged"]
    lines: int
    rows_accepted: int
    rows_rejected: int
    rows_set_aside: int
    reject_reasons: dict[str, int]

    @property
    def rows_malformed(self) -> int:
        """Rejected rows but those that the source itself set aside, no sign of a broken file."""
        return self.rows_rejected - self.rows_set_aside

    @property
    def malformed_share(self) -> float:
        return self.rows_malformed / max(self.rows_accepted + self.rows_rejected, 1)


@dataclass(frozen=True)
class IngestFailure:
    """A file that was refused, and why; the warehouse holds what it held before."""

    file: LogFile
    error: MomError


def ingest_day(warehouse: Warehouse, day: date) -> list[IngestResult | IngestFailure]:
    """Ingest the files of one delivery day, except those whose refusal still holds."""
    refused, files = refusals_by_file(warehouse), discover(warehouse.settings.logs_dir).files
    of_day = [file for file in files if file.day == day]
    return list(ingest_files(warehouse, _not_refused(of_day, refused, warehouse.settings)))


def pending_files(warehouse: Warehouse) -> list[LogFile]:
    """The log files that are new or differ from what the ledger holds: `ingest` takes these.

    Without those that were refused, or dropped, as they are.
    """
    ledger, settings = ledger_by_file(warehouse), warehouse.settings
    files = discover(settings.logs_dir).files
    changed = [
        file for file in files if not _is_ingested(file, ledger.get(file.source_file), settings)
    ]
    return _not_refused(changed, refusals_by_file(warehouse), settings)


def _is_ingested(file: LogFile, entry: LedgerEntry | None, settings: Settings) -> bool:
    try:
        return entry is not None and is_unchanged(file, entry, settings)
    except LogFileNotRead:
        return False


def _not_refused(
    files: Iterable[LogFile], refused: Mapping[str, Refusal], settings: Settings
) -> list[LogFile]:
    return [
        file
        for file in files
        if file.source_file not in refused or not refused[file.source_file].holds(file, settings)
    ]


def is_unchanged(file: LogFile, entry: LedgerEntry, settings: Settings) -> bool:
    """Whether a file has the bytes of its ledger entry, and would be read by the same rules.

    A file of the same size whose inode was last changed before it was ingested is not read.
    """
    if entry.settings != settings.logs.reading_rules():
        return False
    try:
        status = file.path.stat()
        if status.st_size != entry.size_bytes:
            return False
        changed = datetime.fromtimestamp(max(status.st_ctime, status.st_mtime), UTC)
        if changed + _CLOCK_STEP < datetime.fromisoformat(entry.ingested_at):
            return True
        return sha256_of(file.path) == entry.sha256
    except OSError as error:
        raise LogFileNotRead(f"{file.path} could not be read: {error}; try again") from error


def ingest_files(
    warehouse: Warehouse,
    files: Iterable[LogFile],
    progress: FileProgress = lambda file, n_bytes: None,
) -> Iterator[IngestResult | IngestFailure]:
    """Ingest files one by one; `progress` receives the bytes read of each.

    A file that the ledger holds is skipped without opening the warehouse again. One that is
    refused is remembered with the reason, and stops no other.
    """
    ledger = ledger_by_file(warehouse)
    with warehouse.kept_open():
        for file in files:
            entry = ledger.get(file.source_file)
            try:
                if entry is not None and is_unchanged(file, entry, warehouse.settings):
                    progress(file, entry.size_bytes)
                    yield _unchanged(file, entry)
                else:
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
    """Bring one log file into the warehouse; `progress` receives the bytes read.

    Raises LogFileError (and subclasses) when the file cannot be taken as it is; the warehouse
    then holds what it held before.
    """
    settings, begun = warehouse.settings, datetime.now(UTC)
    with scratch_folder(settings, "ingest") as scratch:
        try:
            scan = scan_file(file, scratch, progress)
            _require_whole(file, scan, settings.logs)
        except OSError as error:
            raise LogFileNotRead(f"{file.path} could not be read: {error}; try again") from error
        except UnicodeDecodeError as error:
            raise LogFileError(
                f"{file.path.name}.sha256 is not text: {error}; deliver it again"
            ) from error
        try:
            with warehouse.opened() as connection:
                rules = settings.logs.reading_rules()
                for known in ledger_entries(connection, file.source_file):
                    if (known.sha256, known.settings) == (scan.sha256, rules):
                        return _unchanged(file, known)
                return _replace(connection, file, scan, settings, begun)
        except duckdb.Error as error:
            kind = LogFileNotRead if _is_of_the_machine(error) else LogFileError
            raise kind(
                f"{file.path} was not ingested: {error}; the warehouse is as before, or "
                "complete if the disk filled at the very end. Repeat the ingest"
            ) from error


def _is_of_the_machine(error: duckdb.Error) -> bool:
    """Return whether the disk or the memory failed, and not the file."""
    exhausted = (duckdb.OutOfMemoryException, duckdb.FatalException)
    texts = ("No space left", "Could not write", "Input/output error", "Disk quota")
    return isinstance(error, exhausted) or any(text in str(error) for text in texts)


def _require_whole(file: LogFile, scan: Scan, logs: LogSettings) -> None:
    """Refuse a file that differs from `<name>.sha256` beside it, or without one was cut short."""
    beside = file.checksum_path
    if beside.is_file():
        words = beside.read_text(encoding="utf-8").split()
        expected = words[0].lower() if words else ""
        if expected != scan.sha256:
            raise LogFileError(
                f"{file.path} has sha256 {scan.sha256}, but {beside.name} states "
                f"{expected or 'nothing'}; deliver the file again"
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


def _unchanged(file: LogFile, entry: LedgerEntry) -> IngestResult:
    return IngestResult(
        file,
        "unchanged",
        entry.lines,
        entry.rows_accepted,
        entry.rows_rejected,
        entry.rows_set_aside,
        entry.reject_reasons,
    )


def _replace(
    connection: Connection, file: LogFile, scan: Scan, settings: Settings, begun: datetime
) -> IngestResult:
    """Stage the file, then exchange its rows, quarantine and ledger entry in one transaction."""
    logs = settings.logs
    lines = stage(connection, file, scan, logs)
    require_unchanged(file, scan)  # DuckDB has read it a second time
    query = event_query(file, scan.readable, logs, erased_users(settings))
    with transaction(connection):
        replaced = _delete(connection, file)
        remove_refusal(connection, file.source_file)
        accepted = _insert_accepted(connection, file, query)
        rejected = lines - header_lines(file) - accepted
        reasons = _insert_rejected(connection, file, query) if rejected else {}
        _require_accounted(file, lines, accepted, sum(reasons.values()))
        set_aside = sum(n for r, n in reasons.items() if r.startswith(SET_ASIDE_PREFIX))
        result = IngestResult(
            file, "replaced" if replaced else "new", lines, accepted, rejected, set_aside, reasons
        )
        if result.malformed_share > logs.max_reject_share:
            advice = _time_advice(connection, query, result, logs)
            raise LogFileError(_too_many_rejects(result, logs.max_reject_share, advice))
        _insert_ledger(connection, result, scan, logs, begun)
    return result


def stage(connection: Connection, file: LogFile, scan: Scan, logs: LogSettings) -> int:
    """Fill `staged_lines`; the physical lines, counted independently of the parser."""
    if file.format == "parquet":
        lines = stage_log_parquet(connection, file, logs.columns)
        read = scalar(connection, "SELECT count(*) FROM staged_lines")
    else:
        lines = scan.lines
        read = stage_text(connection, scan.readable)
    if read != lines:
        raise LogFileError(
            f"{file.path} has {lines} lines, but {read} were read; nothing was stored. "
            "Deliver the file again, or report it if it is sound"
        )
    return lines


def _delete(connection: Connection, file: LogFile) -> bool:
    """Remove what an earlier delivery of this file brought; True if there was one."""
    source = {"source_file": file.source_file}
    if not scalar(
        connection, "SELECT count(*) FROM ingest_ledger WHERE source_file = $source_file", source
    ):
        return False
    for table in DELIVERED_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE source_file = $source_file", source)  # noqa: S608
    return True


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


def _require_accounted(file: LogFile, lines: int, accepted: int, rejected: int) -> None:
    if lines != header_lines(file) + accepted + rejected:
        raise LogFileError(
            f"{file.path} has {lines} lines, but {header_lines(file)} header + {accepted} "
            f"accepted + {rejected} rejected differ from that; nothing was stored. Report this"
        )


def _too_many_rejects(result: IngestResult, max_share: float, advice: str) -> str:
    reasons = ", ".join(
        f"{reason}: {n}"
        for reason, n in list(result.reject_reasons.items())[:5]
        if not reason.startswith(SET_ASIDE_PREFIX)
    )
    remedy = advice or "Correct and deliver the file again, or raise the setting"
    rows = result.rows_accepted + result.rows_rejected
    return (
        f"{result.file.path}: {result.rows_malformed} of {rows} rows are malformed "
        f"({reasons}), more than logs.max_reject_share = {max_share:g}; nothing was stored. "
        f"{remedy}"
    )


def _time_advice(
    connection: Connection, query: Query, result: IngestResult, logs: LogSettings
) -> str:
    """What to say where times are not understood: the format that would fit; "" otherwise."""
    if NOT_UNDERSTOOD not in result.reject_reasons:
        return ""
    rows = connection.execute(
        f"{query.sql} SELECT time_text FROM typed WHERE event_time IS NULL LIMIT 500",  # noqa: S608
        query.parameters,
    ).fetchall()
    option, present = "logs.timestamp_format =", logs.timestamp_format
    return format_advice([str(text) for (text,) in rows if text], option, present)


def _insert_ledger(
    connection: Connection, result: IngestResult, scan: Scan, logs: LogSettings, begun: datetime
) -> None:
    values = {
        "source_file": result.file.source_file,
        "delivery_day": result.file.day,
        "size_bytes": scan.size_bytes,
        "sha256": scan.sha256,
        "lines": result.lines,
        "header_lines": header_lines(result.file),
        "rows_accepted": result.rows_accepted,
        "rows_rejected": result.rows_rejected,
        "rows_set_aside": result.rows_set_aside,
        "reject_reasons": json.dumps(result.reject_reasons, ensure_ascii=False),
        "settings": logs.reading_rules(),
        "ingested_at": begun,
    }
    names = ", ".join(values)
    marks = ", ".join(f"${name}" for name in values)
    connection.execute(f"INSERT INTO ingest_ledger ({names}) VALUES ({marks})", values)  # noqa: S608
