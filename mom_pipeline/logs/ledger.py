"""Looking at the ledger: entries, sums by day, and what lies in the quarantine."""

import json
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from mom_pipeline.warehouse.connection import Connection, load_sql


@dataclass(frozen=True)
class LedgerEntry:
    """One ingested file."""

    source_file: str
    delivery_day: date
    size_bytes: int
    sha256: str
    lines: int
    header_lines: int
    rows_accepted: int
    rows_rejected: int
    rows_set_aside: int
    reject_reasons: dict[str, int]
    settings: str
    ingested_at: str


@dataclass(frozen=True)
class DaySummary:
    """One delivery day: its files and rows, and the distinct users and items that it brought."""

    day: date
    files: int
    rows_accepted: int
    rows_rejected: int
    rows_set_aside: int
    users: int
    items: int


@dataclass(frozen=True)
class QuarantinedLine:
    """A line that was not taken, and why."""

    source_file: str
    line: int
    reason: str
    text: str


def ledger_entries(connection: Connection) -> list[LedgerEntry]:
    """Every ingested file, ordered by day and name."""
    rows = connection.execute(
        "SELECT source_file, delivery_day, size_bytes, sha256, lines, header_lines, rows_accepted, "
        "rows_rejected, rows_set_aside, reject_reasons, settings, ingested_at::VARCHAR "
        "FROM ingest_ledger ORDER BY delivery_day, source_file"
    ).fetchall()
    return [_entry(*row) for row in rows]


def _entry(*columns: Any) -> LedgerEntry:
    names = [field.name for field in fields(LedgerEntry)]
    values = dict(zip(names, columns, strict=True))
    values["reject_reasons"] = json.loads(values["reject_reasons"])
    return LedgerEntry(**values)


def days(connection: Connection) -> list[DaySummary]:
    """The ledger by delivery day, with the distinct users and items of each."""
    rows = connection.execute(load_sql("logs/ledger_days.sql")).fetchall()
    return [DaySummary(*row) for row in rows]


def delivery_days(connection: Connection) -> list[date]:
    """The days that brought rows, ascending."""
    rows = connection.execute(
        "SELECT DISTINCT delivery_day FROM ingest_ledger WHERE rows_accepted > 0 ORDER BY ALL"
    ).fetchall()
    return [day for (day,) in rows]


def deliveries_until(connection: Connection, day: date) -> list[LedgerEntry]:
    """The files of every delivery day up to a day, in order."""
    return [entry for entry in ledger_entries(connection) if entry.delivery_day <= day]


def total_users_and_items(connection: Connection) -> tuple[int, int]:
    """Distinct users and items of all days."""
    users, items = connection.execute(
        "SELECT (SELECT count(*) FROM (SELECT DISTINCT user_id FROM raw_logs)), "
        "(SELECT count(*) FROM (SELECT DISTINCT item_id FROM raw_logs))"
    ).fetchall()[0]
    return users, items


def reject_reasons(connection: Connection, day: date | None = None) -> dict[str, int]:
    """Rows per reason, most frequent first, of one day or of all."""
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine "
        "WHERE $day IS NULL OR delivery_day = $day::DATE "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        {"day": day.isoformat() if day else None},
    ).fetchall()
    return dict(rows)


def quarantined_lines(connection: Connection, day: date, limit: int) -> list[QuarantinedLine]:
    """The first quarantined lines of a day."""
    rows = connection.execute(
        "SELECT source_file, line, reason, text FROM quarantine WHERE delivery_day = $day::DATE "
        "ORDER BY source_file, line LIMIT $limit",
        {"day": day.isoformat(), "limit": limit},
    ).fetchall()
    return [QuarantinedLine(*row) for row in rows]
