"""What one delivery day brought, from the ledger and the tables."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from mom_pipeline.logs.ledger import reject_reasons
from mom_pipeline.warehouse.connection import Connection

_SAMPLE_ROWS = 8
_WEEK = timedelta(days=7)


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


def delivered_day(connection: Connection, day: date) -> DeliveredDay:
    """Look at one delivery day."""
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
        contents=_contents(connection, day),
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


def _contents(connection: Connection, day: date) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT source_file, sha256 FROM ingest_ledger WHERE delivery_day = $day::DATE "
        "ORDER BY source_file",
        {"day": day.isoformat()},
    ).fetchall()


def _sample(connection: Connection, day: date) -> list[dict[str, Any]]:
    rows = connection.execute(
        "SELECT event_time::VARCHAR, user_id, item_id, weight::DOUBLE FROM raw_logs "
        "WHERE delivery_day = $day::DATE ORDER BY source_file, line LIMIT $n",
        {"day": day.isoformat(), "n": _SAMPLE_ROWS},
    ).fetchall()
    return [dict(zip(("time", "user", "item", "weight"), row, strict=True)) for row in rows]
