"""Log files into the warehouse: exactly once, one transaction per file.

A file's rows, its quarantine and its ledger entry are replaced together. So the same file
again changes nothing, a changed file replaces exactly its own rows, and an ingest that was
killed, or whose COMMIT raised, converges when it is repeated.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.erasure.erased_users import erased_users
from mom_pipeline.errors import LinesNotAccounted, LogFileError, TooManyRejects
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.logs.readers import (
    ERASED,
    SET_ASIDE_PREFIX,
    EventQuery,
    event_query,
    header_lines,
    stage_parquet,
    stage_text,
)
from mom_pipeline.logs.scan import (
    QUARANTINED_CHARACTERS,
    Progress,
    Scan,
    no_progress,
    scan_bytes,
    scan_text,
)
from mom_pipeline.settings import LogSettings, Settings
from mom_pipeline.warehouse.connection import (
    Connect,
    Connection,
    Warehouse,
    load_sql,
    scalar,
    transaction,
)


@dataclass(frozen=True)
class IngestOutcome:
    """What happened to one file. Numbers are those of the ledger."""

    file: LogFile
    status: Literal["new", "replaced", "unchanged"]
    lines: int
    rows_accepted: int
    rows_rejected: int
    rows_set_aside: int
    reject_reasons: dict[str, int]


def ingest_file(
    warehouse: Warehouse,
    file: LogFile,
    progress: Progress = no_progress,
    connect: Connect | None = None,
) -> IngestOutcome:
    """Bring one log file into the warehouse; `progress` receives the bytes read. The connection
    comes from `connect` (see `Warehouse.sharing`), or is made for this file.

    Raises LogFileError (and subclasses) when the file cannot be taken as it is; the warehouse
    then holds what it held before.
    """
    settings = warehouse.settings
    with scratch_folder(settings, "ingest") as scratch:
        try:
            scan = scan_file(file, scratch, progress)
            _check_sha256_file(file, scan.sha256)
        except (OSError, UnicodeDecodeError) as error:
            raise LogFileError(f"{file.path} could not be read: {error}; try again") from error
        with (connect or warehouse.connect)() as connection:
            known = _ledger_outcome(connection, file, scan, settings.logs)
            if known is not None:
                return known
            try:
                return _replace(connection, file, scan, settings)
            except duckdb.Error as error:
                raise LogFileError(
                    f"{file.path} was not ingested: {error}; the warehouse is as before, or "
                    "complete if the disk filled at the very end. Repeat the ingest"
                ) from error


def is_ingested(connection: Connection, file: LogFile, sha256: str, logs: LogSettings) -> bool:
    """True when the ledger holds these very bytes, read by the same rules."""
    matches = scalar(
        connection,
        "SELECT count(*) FROM ingest_ledger WHERE source_file = $source_file "
        "AND sha256 = $sha256 AND settings = $settings",
        {"source_file": file.source_file, "sha256": sha256, "settings": logs.reading_rules()},
    )
    return matches > 0


def scan_file(file: LogFile, scratch: Path, progress: Progress = no_progress) -> Scan:
    """Look at a file's bytes before anything parses them."""
    if file.format == "parquet":
        size, sha256 = scan_bytes(file.path, progress)
        return Scan(size, sha256, lines=-1, readable=file.path)  # lines: from its footer
    return scan_text(file, scratch, progress)


def _check_sha256_file(file: LogFile, sha256: str) -> None:
    """Compare with `<name>.sha256` beside the file, where there is one."""
    beside = file.path.with_name(file.path.name + ".sha256")
    if not beside.exists():
        return
    words = beside.read_text(encoding="utf-8").split()
    expected = words[0].lower() if words else ""
    if expected != sha256:
        raise LogFileError(
            f"{file.path} has sha256 {sha256}, but {beside.name} states {expected or 'nothing'}; "
            "deliver the file again"
        )


def _ledger_outcome(
    connection: Connection, file: LogFile, scan: Scan, logs: LogSettings
) -> IngestOutcome | None:
    """The outcome "unchanged" when the ledger already holds this file, else None."""
    if not is_ingested(connection, file, scan.sha256, logs):
        return None
    rows = connection.execute(
        "SELECT lines, rows_accepted, rows_rejected, rows_set_aside, reject_reasons "
        "FROM ingest_ledger WHERE source_file = $source_file",
        {"source_file": file.source_file},
    ).fetchall()
    lines, accepted, rejected, set_aside, reasons = rows[0]
    return IngestOutcome(
        file, "unchanged", lines, accepted, rejected, set_aside, json.loads(reasons)
    )


def _replace(
    connection: Connection, file: LogFile, scan: Scan, settings: Settings
) -> IngestOutcome:
    """Stage the file, then exchange its rows, quarantine and ledger entry in one transaction."""
    logs = settings.logs
    lines = stage(connection, file, scan, logs)
    query = event_query(file, scan.readable, logs, erased_users(settings))
    with transaction(connection):
        replaced = _delete(connection, file)
        accepted = _insert_accepted(connection, file, query)
        rejected = lines - header_lines(file) - accepted
        reasons = _insert_rejected(connection, file, query) if rejected else {}
        _require_accounted(file, lines, accepted, sum(reasons.values()))
        set_aside = sum(n for r, n in reasons.items() if r.startswith(SET_ASIDE_PREFIX))
        outcome = IngestOutcome(
            file, "replaced" if replaced else "new", lines, accepted, rejected, set_aside, reasons
        )
        _require_few_rejects(outcome, logs.max_reject_share)
        _insert_ledger(connection, outcome, scan, logs)
    return outcome


def stage(connection: Connection, file: LogFile, scan: Scan, logs: LogSettings) -> int:
    """Fill `staged_lines`; the physical lines, counted independently of the parser."""
    if file.format == "parquet":
        lines = stage_parquet(connection, file, logs.columns)
        read = scalar(connection, "SELECT count(*) FROM staged_lines")
    else:
        lines = scan.lines
        read = stage_text(connection, scan.readable)
    if read != lines:
        raise LinesNotAccounted(
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
    for table in ("raw_logs", "quarantine", "ingest_ledger"):
        connection.execute(f"DELETE FROM {table} WHERE source_file = $source_file", source)  # noqa: S608
    return True


def _insert_accepted(connection: Connection, file: LogFile, query: EventQuery) -> int:
    return scalar(
        connection,
        f"""
        INSERT INTO raw_logs
        {query.with_clause}
        SELECT $source_file, line, $day::DATE, event_time, user_id, item_id, weight
        FROM events WHERE reason IS NULL
        """,  # noqa: S608
        query.parameters | {"source_file": file.source_file, "day": file.day.isoformat()},
    )


def _insert_rejected(connection: Connection, file: LogFile, query: EventQuery) -> dict[str, int]:
    """Fill the quarantine; the number of rows per reason, most frequent first."""
    source = {"source_file": file.source_file}
    connection.execute(
        f"""
        INSERT INTO quarantine
        {query.with_clause}
        SELECT
            $source_file, line, $day::DATE,
            CASE WHEN reason = $erased THEN ''
                 WHEN starts_with(text, $mark) THEN split_part(text, $mark, 3)
                 ELSE left(coalesce(text, ''), $quarantined_characters) END,
            reason
        FROM events WHERE reason IS NOT NULL
        """,  # noqa: S608
        query.parameters
        | source
        | {
            "day": file.day.isoformat(),
            "quarantined_characters": QUARANTINED_CHARACTERS,
            "erased": ERASED,
        },
    )
    counts = connection.execute(
        "SELECT reason, count(*) FROM quarantine WHERE source_file = $source_file "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        source,
    ).fetchall()
    return dict(counts)


def _require_accounted(file: LogFile, lines: int, accepted: int, rejected: int) -> None:
    if lines != header_lines(file) + accepted + rejected:
        raise LinesNotAccounted(
            f"{file.path} has {lines} lines, but {header_lines(file)} header + {accepted} "
            f"accepted + {rejected} rejected differ from that; nothing was stored. Report this"
        )


def _require_few_rejects(outcome: IngestOutcome, max_share: float) -> None:
    """Rows that the source itself set aside are no sign of a broken file."""
    malformed = outcome.rows_rejected - outcome.rows_set_aside
    rows = outcome.rows_accepted + outcome.rows_rejected
    if rows and malformed / rows > max_share:
        reasons = ", ".join(
            f"{reason}: {n}"
            for reason, n in list(outcome.reject_reasons.items())[:5]
            if not reason.startswith(SET_ASIDE_PREFIX)
        )
        raise TooManyRejects(
            f"{outcome.file.path}: {malformed} of {rows} rows are malformed ({reasons}), more than "
            f"logs.max_reject_share = {max_share:g}; nothing was stored. Correct and deliver the "
            "file again, or raise the setting"
        )


def _insert_ledger(
    connection: Connection, outcome: IngestOutcome, scan: Scan, logs: LogSettings
) -> None:
    connection.execute(
        load_sql("logs/insert_ledger.sql"),
        {
            "source_file": outcome.file.source_file,
            "delivery_day": outcome.file.day.isoformat(),
            "size_bytes": scan.size_bytes,
            "sha256": scan.sha256,
            "lines": outcome.lines,
            "header_lines": header_lines(outcome.file),
            "rows_accepted": outcome.rows_accepted,
            "rows_rejected": outcome.rows_rejected,
            "rows_set_aside": outcome.rows_set_aside,
            "reject_reasons": json.dumps(outcome.reject_reasons, ensure_ascii=False),
            "settings": logs.reading_rules(),
        },
    )
