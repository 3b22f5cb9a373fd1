"""Which delivery days count: the verdicts of the gate, and the decisions of a person.

A day that the gate keeps out stays in `raw_logs`, but not in the view `admitted_logs`: the days
after it are computed without its rows. A verdict is a function of the day's rows and of the days
before it, so it is the same whether days come one by one, out of order, or all at once.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.ingest import DELIVERED_TABLES
from mom_pipeline.logs.ledger import contents_of_day
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.refusals import Refusal, contents_of, record_refusals, refusals
from mom_pipeline.warehouse.connection import Connection, Warehouse

Judge = Literal["rows", "model"]
# Days in a row that are kept out before what they show counts as the new usual.
_LASTING_DAYS = 3
DROPPED = "dropped by a person; `mom-pipeline accept {day}` takes it in again"


def judge_day(
    connection: Connection,
    day: date,
    judge: Judge,
    figures: Mapping[str, float],
    objections: Sequence[str],
) -> bool:
    """Store what a judge looked at and its verdict; return whether the day is now kept out.

    A person's `accept` counts for more, as long as the files of the day are the same.
    """
    store_figures(connection, day, judge, figures)
    connection.execute(
        "DELETE FROM held_days WHERE day = $day::DATE AND judge = $judge", _key(day, judge)
    )
    if objections and not is_accepted(connection, day):
        connection.execute(
            "INSERT INTO held_days VALUES ($day::DATE, $judge, $reason)",
            {**_key(day, judge), "reason": "; ".join(objections)},
        )
    return day in held_days(connection)


def held_days(connection: Connection) -> dict[date, str]:
    """Return the days that are kept out, each with the reasons."""
    rows = connection.execute(
        "SELECT day, string_agg(reason, '; ' ORDER BY judge DESC) FROM held_days GROUP BY day"
    ).fetchall()
    return dict(rows)


def store_figures(
    connection: Connection, day: date, judge: Judge, figures: Mapping[str, float]
) -> None:
    """Store the figures of a day in place of earlier ones."""
    connection.execute(
        "DELETE FROM day_figures WHERE day = $day::DATE AND judge = $judge", _key(day, judge)
    )
    if figures:
        connection.execute(
            "INSERT INTO day_figures VALUES ($day::DATE, $judge, $figures)",
            {**_key(day, judge), "figures": json.dumps(dict(figures))},
        )


def recent_figures(
    connection: Connection, day: date, judge: Judge, n_days: int, *, kept_out: bool = False
) -> list[dict[str, Any]]:
    """Return the figures of the last `n_days` days before a day that count, oldest first.

    Only days since the last change that lasted, see `usual_since`.
    kept_out: of those that do not count instead.
    """
    delivered = connection.execute(
        "SELECT day, day IN (SELECT day FROM held_days) FROM day_figures "
        "WHERE judge = 'rows' AND day < $day::DATE ORDER BY day",
        {"day": day.isoformat()},
    ).fetchall()
    since = usual_since(delivered)
    rows = connection.execute(
        "SELECT figures FROM day_figures WHERE day < $day::DATE AND judge = $judge "
        "AND ($since IS NULL OR day >= $since::DATE) "
        "AND (day IN (SELECT day FROM held_days)) = $kept_out ORDER BY day DESC LIMIT $n",
        {
            **_key(day, judge),
            "n": n_days,
            "kept_out": kept_out,
            "since": since.isoformat() if since else None,
        },
    ).fetchall()
    return [json.loads(text) for (text,) in reversed(rows)]


def usual_since(delivered: Sequence[tuple[date, bool]]) -> date | None:
    """Return from which day on days tell what is usual; None: all of them.

    delivered: the days with rows, ascending, and whether each is kept out. When so many days in a
    row were kept out, the logs have changed for good: the day after them starts anew. Those days
    themselves stay out.
    """
    since, in_a_row = None, 0
    for day, is_out in delivered:
        in_a_row = in_a_row + 1 if is_out else 0
        if in_a_row >= _LASTING_DAYS:
            since = day + timedelta(days=1)
    return since


def is_accepted(connection: Connection, day: date) -> bool:
    """Return whether a person took in the files of the day as they are."""
    rows = connection.execute(
        "SELECT contents FROM accepted_days WHERE day = $day::DATE", {"day": day.isoformat()}
    ).fetchall()
    return (_hash(contents_of_day(connection, day)),) in rows


def accept_day(warehouse: Warehouse, day: date) -> str:
    """Take in a day that was kept out or dropped; say what it was. Raises LogFileError."""
    with warehouse.connect() as connection:
        held = held_days(connection).get(day)
        dropped = [one for one in refusals(connection, day) if one.dropped]
        if held is None and not dropped:
            raise LogFileError(
                f"{day} is neither kept out nor dropped; `mom-pipeline status` lists the days "
                "that are"
            )
        there = {file.source_file for file in discover(warehouse.settings.logs_dir).files}
        if held is None and not any(one.source_file in there for one in dropped):
            names = ", ".join(one.source_file for one in dropped)
            raise LogFileError(
                f"{day} was dropped, and its files are no longer in the logs folder: {names}; put "
                "them there again first"
            )
        contents = contents_of_day(connection, day)
        contents += [(one.source_file, one.contents.split()[0]) for one in dropped]
        of_day = {"day": day.isoformat()}
        connection.execute("DELETE FROM held_days WHERE day = $day::DATE", of_day)
        connection.execute(
            "DELETE FROM refused_files WHERE delivery_day = $day::DATE AND dropped", of_day
        )
        _store_acceptance(connection, day, contents)
    return held or f"dropped: {', '.join(one.source_file for one in dropped)}"


@contextmanager
def keeping_decisions(warehouse: Warehouse, file: LogFile) -> Iterator[None]:
    """Carry a person's decision on a day over to new contents of a file, as erasure makes them."""
    with warehouse.reading() as connection:
        accepted = is_accepted(connection, file.day)
        dropped = [
            one
            for one in refusals(connection, file.day)
            if one.dropped and one.source_file == file.source_file
        ]
    yield
    with warehouse.connect() as connection:
        if accepted:
            _store_acceptance(connection, file.day, contents_of_day(connection, file.day))
        record_refusals(connection, [replace(one, contents=contents_of(file)) for one in dropped])


def _store_acceptance(
    connection: Connection, day: date, contents: Sequence[tuple[str, str]]
) -> None:
    of_day = {"day": day.isoformat()}
    connection.execute("DELETE FROM accepted_days WHERE day = $day::DATE", of_day)
    connection.execute(
        "INSERT INTO accepted_days VALUES ($day::DATE, $contents, $now)",
        {**of_day, "contents": _hash(contents), "now": datetime.now(tz=UTC)},
    )


def drop_day(warehouse: Warehouse, day: date) -> int:
    """Remove the rows of a day for good, and do not take its files again; return the rows.

    Raises LogFileError when the day brought nothing.
    """
    reason = DROPPED.format(day=day)
    files = {f.source_file: f for f in discover(warehouse.settings.logs_dir).files if f.day == day}
    with warehouse.connect() as connection:
        of_day = {"day": day.isoformat()}
        ledger = connection.execute(
            "SELECT source_file, sha256, rows_accepted FROM ingest_ledger "
            "WHERE delivery_day = $day::DATE",
            of_day,
        ).fetchall()
        if not ledger and not files:
            raise LogFileError(
                f"{day} brought no rows and has no file; `mom-pipeline logs` lists the days that do"
            )
        dropped = [
            Refusal(name, day, sha256, "", reason, dropped=True) for name, sha256, _ in ledger
        ]
        dropped += [
            replace(Refusal.of_file(file, warehouse.settings, reason), dropped=True)
            for file in files.values()
        ]
        record_refusals(connection, dropped)
        for table in DELIVERED_TABLES:
            connection.execute(f"DELETE FROM {table} WHERE delivery_day = $day::DATE", of_day)  # noqa: S608
        for table in ("held_days", "accepted_days", "day_figures"):
            connection.execute(f"DELETE FROM {table} WHERE day = $day::DATE", of_day)  # noqa: S608
    return sum(rows for _, _, rows in ledger)


def removed_files(connection: Connection, there: Collection[str]) -> dict[date, list[str]]:
    """Return the files of the ledger that are no longer in the folder, by day; their rows stay."""
    rows = connection.execute(
        "SELECT delivery_day, source_file FROM ingest_ledger ORDER BY ALL"
    ).fetchall()
    removed: dict[date, list[str]] = {}
    for day, name in rows:
        if name not in there:
            removed.setdefault(day, []).append(name)
    return removed


def _hash(contents: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(repr(sorted(contents)).encode()).hexdigest()


def _key(day: date, judge: Judge) -> dict[str, str]:
    return {"day": day.isoformat(), "judge": judge}
