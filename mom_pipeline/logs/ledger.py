"""Queries of the ledger: entries, sums by day, one delivery day, and the quarantine."""

import json
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql

# What an ingest fills, file by file.
DELIVERED_TABLES = ("raw_logs", "quarantine", "ingest_ledger")
_SAMPLE_ROWS = 8
_WEEK = timedelta(days=7)


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


@dataclass(frozen=True)
class DeliveredDay:
    """The ledger's sums (files to rejected), the tables' counts, and some rows to look at.

    trailing: accepted rows of the days of the week before, as far as delivered.
    newest: the newest delivery up to the day.  contents: name and sha256 of every file.
    """

    files: int
    lines: int
    header: int
    accepted: int
    rejected: int
    rows: int
    quarantined: int
    users: int
    items: int
    reasons: dict[str, int]
    trailing: list[int]
    newest: date | None
    contents: list[tuple[str, str]]
    sample: list[dict[str, Any]]


def ledger_entries(connection: Connection, source_file: str | None = None) -> list[LedgerEntry]:
    """Every ingested file, or one of them, ordered by day and name."""
    rows = connection.execute(
        "SELECT source_file, delivery_day, size_bytes, sha256, lines, header_lines, rows_accepted, "
        "rows_rejected, rows_set_aside, reject_reasons, settings, ingested_at::VARCHAR "
        "FROM ingest_ledger WHERE $source_file IS NULL OR source_file = $source_file "
        "ORDER BY delivery_day, source_file",
        {"source_file": source_file},
    ).fetchall()
    return [_entry(*row) for row in rows]


def _entry(*columns: Any) -> LedgerEntry:
    names = [field.name for field in fields(LedgerEntry)]
    values = dict(zip(names, columns, strict=True))
    values["reject_reasons"] = json.loads(values["reject_reasons"])
    return LedgerEntry(**values)


def ledger_by_file(warehouse: Warehouse) -> dict[str, LedgerEntry]:
    """Every ledger entry by the name of its file; none before the first ingest."""
    if not warehouse.exists():
        return {}
    with warehouse.reading() as connection:
        return {entry.source_file: entry for entry in ledger_entries(connection)}


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


def reject_reasons(
    connection: Connection, day: date | None = None, source_file: str | None = None
) -> dict[str, int]:
    """Return the quarantined rows per reason, most frequent first: all, or of a day or a file."""
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine "
        "WHERE ($day IS NULL OR delivery_day = $day::DATE) "
        "AND ($source_file IS NULL OR source_file = $source_file) "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        {"day": day.isoformat() if day else None, "source_file": source_file},
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


def delivered_day(connection: Connection, day: date) -> DeliveredDay:
    """Return the counts, files and a sample of one delivery day."""
    of_day = {"day": day.isoformat()}
    files, lines, header, accepted, rejected = connection.execute(
        "SELECT count(*), coalesce(sum(lines), 0)::BIGINT, coalesce(sum(header_lines), 0)::BIGINT, "
        "coalesce(sum(rows_accepted), 0)::BIGINT, coalesce(sum(rows_rejected), 0)::BIGINT "
        "FROM ingest_ledger WHERE delivery_day = $day::DATE",
        of_day,
    ).fetchall()[0]
    rows, users, items = connection.execute(
        "SELECT count(*), count(DISTINCT user_id), count(DISTINCT item_id) "
        "FROM raw_logs WHERE delivery_day = $day::DATE",
        of_day,
    ).fetchall()[0]
    reasons = reject_reasons(connection, day)
    return DeliveredDay(
        files=files,
        lines=lines,
        header=header,
        accepted=accepted,
        rejected=rejected,
        rows=rows,
        quarantined=sum(reasons.values()),
        users=users,
        items=items,
        reasons=reasons,
        trailing=_trailing(connection, day),
        newest=_newest(connection, day),
        contents=contents_of_day(connection, day),
        sample=_sample(connection, day),
    )


def _trailing(connection: Connection, day: date) -> list[int]:
    rows = connection.execute(
        "SELECT sum(rows_accepted)::BIGINT FROM ingest_ledger WHERE delivery_day >= $first::DATE "
        "AND delivery_day < $day::DATE GROUP BY delivery_day ORDER BY delivery_day",
        {"day": day.isoformat(), "first": (day - _WEEK).isoformat()},
    ).fetchall()
    return [count for (count,) in rows]


def _newest(connection: Connection, day: date) -> date | None:
    rows = connection.execute(
        "SELECT max(delivery_day) FROM ingest_ledger WHERE delivery_day <= $day::DATE",
        {"day": day.isoformat()},
    ).fetchall()
    newest: date | None = rows[0][0]
    return newest


def contents_of_day(connection: Connection, day: date) -> list[tuple[str, str]]:
    """Return name and sha256 of every file that a day brought."""
    return connection.execute(
        "SELECT source_file, sha256 FROM ingest_ledger WHERE delivery_day = $day::DATE "
        "ORDER BY source_file",
        {"day": day.isoformat()},
    ).fetchall()


def _sample(connection: Connection, day: date) -> list[dict[str, Any]]:
    """Return some events without their users: Dagster keeps its metadata for good."""
    rows = connection.execute(
        "SELECT event_time::VARCHAR, item_id, weight::DOUBLE FROM raw_logs "
        "WHERE delivery_day = $day::DATE ORDER BY source_file, line LIMIT $n",
        {"day": day.isoformat(), "n": _SAMPLE_ROWS},
    ).fetchall()
    return [dict(zip(("time", "item", "weight"), row, strict=True)) for row in rows]
