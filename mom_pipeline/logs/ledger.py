"""The ledger of ingested files: entries, sums by day, one delivery day, and the quarantine."""

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

from mom_pipeline.warehouse.connection import Connection, load_sql, put_row, records

# What an ingest fills, file by file.
DELIVERED_TABLES = ("raw_logs", "quarantine", "ingest_ledger")
_SAMPLE_ROWS = 8


@dataclass(frozen=True)
class LedgerEntry:
    """One ingested file: lines = header_lines + rows_accepted + rows_rejected."""

    source_file: str
    delivery_day: date
    size_bytes: int
    sha256: str
    lines: int
    header_lines: int  # headers, blank lines, the rest of records over several lines
    rows_accepted: int
    rows_rejected: int
    rows_set_aside: int  # the part of rows_rejected that the source itself excluded
    reject_reasons: dict[str, int]
    settings: str  # the rules that the lines were read by
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
    """A line that was not ingested, and why."""

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


def put_entry(connection: Connection, entry: LedgerEntry) -> None:
    """Store the entry of a file in place of an earlier one."""
    row = {**vars(entry), "reject_reasons": reasons_text(entry.reject_reasons)}
    put_row(connection, "ingest_ledger", ["source_file"], **row)


def reasons_text(reasons: dict[str, int]) -> str:
    """Reject reasons as they stand in the ledger."""
    return json.dumps(reasons, ensure_ascii=False)


def ledger_entries(connection: Connection, source_file: str | None = None) -> list[LedgerEntry]:
    """Every ingested file, or one of them, ordered by day and name."""
    found = records(
        connection,
        "SELECT * REPLACE (ingested_at::VARCHAR AS ingested_at) FROM ingest_ledger "
        "WHERE $source_file IS NULL OR source_file = $source_file "
        "ORDER BY delivery_day, source_file",
        {"source_file": source_file},
    )
    return [
        LedgerEntry(**{**row, "reject_reasons": json.loads(row["reject_reasons"])}) for row in found
    ]


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


def total_users_and_items(connection: Connection) -> tuple[int, int]:
    """Distinct users and items of all days."""
    users, items = connection.execute(
        "SELECT count(DISTINCT user_id), count(DISTINCT item_id) FROM raw_logs"
    ).fetchall()[0]
    return users, items


def reject_reasons(
    connection: Connection, day: date | None = None, source_file: str | None = None
) -> dict[str, int]:
    """Return the quarantined rows per reason, most frequent first: all, or of a day or a file."""
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine "
        "WHERE ($day IS NULL OR delivery_day = $day) "
        "AND ($source_file IS NULL OR source_file = $source_file) "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        {"day": day, "source_file": source_file},
    ).fetchall()
    return dict(rows)


def quarantined_lines(connection: Connection, day: date, limit: int) -> list[QuarantinedLine]:
    """The first quarantined lines of a day."""
    rows = connection.execute(
        "SELECT source_file, line, reason, text FROM quarantine WHERE delivery_day = $day "
        "ORDER BY source_file, line LIMIT $limit",
        {"day": day, "limit": limit},
    ).fetchall()
    return [QuarantinedLine(*row) for row in rows]


def delivered_day(connection: Connection, day: date) -> DeliveredDay:
    """Return the counts, files and a sample of one delivery day."""
    (counts,) = records(connection, load_sql("logs/delivered_day.sql"), {"day": day})
    reasons = reject_reasons(connection, day)
    # Without the users: Dagster keeps its metadata for good.
    sample = records(
        connection,
        "SELECT event_time::VARCHAR AS time, item_id AS item, weight::DOUBLE AS weight "
        "FROM raw_logs WHERE delivery_day = $day ORDER BY source_file, line LIMIT $n",
        {"day": day, "n": _SAMPLE_ROWS},
    )
    quarantined, contents = sum(reasons.values()), contents_of_day(connection, day)
    return DeliveredDay(
        **counts, reasons=reasons, quarantined=quarantined, contents=contents, sample=sample
    )


def contents_of_day(connection: Connection, day: date) -> list[tuple[str, str]]:
    """Return name and sha256 of every file that a day brought."""
    return connection.execute(
        "SELECT source_file, sha256 FROM ingest_ledger WHERE delivery_day = $day "
        "ORDER BY source_file",
        {"day": day},
    ).fetchall()
