"""Bench of the gate for new days: what it excludes, of poisoned days and of normal ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

from mom_pipeline.bench.measure import Progress, Table, no_progress
from mom_pipeline.bench.poison import POISONS, Events, Surroundings
from mom_pipeline.core.types import Csr
from mom_pipeline.logs.gate import DayVerdict, admit
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.dictionaries import extend_dictionaries, ids_by_position
from mom_pipeline.warehouse.matrix import matrix_as_of

# Users, items and times of all events in the order of time, from the published files.
_LOGS = {
    "30music": (
        "30music.parquet",
        """
        SELECT user_id::VARCHAR AS users, song_id::VARCHAR AS items, ts::BIGINT AS times
        FROM read_parquet($path) ORDER BY times, users, items
        """,
    ),
    "movietweetings": (
        "movietweetings/ratings.dat.gz",
        """
        SELECT column0 AS users, column1 AS items, column3::BIGINT AS times
        FROM read_csv($path, delim = '::', header = false, all_varchar = true)
        ORDER BY times, users, items
        """,
    ),
    "online-retail": (
        "online_retail.csv.gz",
        """
        SELECT
            CustomerID AS users,
            StockCode AS items,
            epoch(InvoiceDate::TIMESTAMP)::BIGINT AS times
        FROM read_csv($path, all_varchar = true)
        WHERE CustomerID IS NOT NULL AND Quantity::INTEGER > 0 AND NOT starts_with(InvoiceNo, 'C')
        ORDER BY times, users, items
        """,
    ),
}
_ROWS = """
INSERT INTO raw_logs
SELECT
    $day || '.csv', row_number() OVER (), $day::DATE, to_timestamp(seconds), user_id, item_id, 1
FROM (
    SELECT
        unnest($users::VARCHAR[]) AS user_id,
        unnest($items::VARCHAR[]) AS item_id,
        unnest($times::BIGINT[]) AS seconds
)
"""
_LEDGER = """
INSERT INTO ingest_ledger
VALUES ($day || '.csv', $day::DATE, 0, '', $n, 0, $n, 0, 0, '{}', '{}', now())
"""
_BY_LIFT = "users took what goes with"


def run_day_gate(
    folder: Path,
    log: str = "30music",
    *,
    tried: int = 12,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Admit the days of a log in order, and try poisoned versions of some of them before."""
    days = read_log(folder, log)
    other = list(read_log(folder, _other_log(folder, log)).values())
    rng = np.random.default_rng(seed)
    chosen = np.linspace(len(days) // 4, len(days) - 2, tried).astype(int).tolist()
    excluded, poisoned = [], []
    with TemporaryDirectory() as scratch:
        gate = DayGate(Path(scratch))
        for number, (day, events) in enumerate(days.items()):
            if number in chosen:
                around = gate.surroundings(other[number * 7 % len(other)])
                for name, poison in POISONS.items():
                    reasons = gate.try_day(day, poison(events, around, rng)).reasons
                    poisoned.append({"scenario": name, "day": str(day), "reasons": reasons})
            verdict = gate.deliver(day, events)
            if not verdict.admitted:
                excluded.append({"day": str(day), "reasons": verdict.reasons})
            progress(str(day), (number + 1) / len(days))
    return {"log": log, "n_days": len(days), "excluded": excluded, "poisoned": poisoned}


def tables_day_gate(result: dict[str, Any]) -> list[Table]:
    """A row per scenario, and a row per normal day that was excluded."""
    scenarios = []
    for name in POISONS:
        tries = [one["reasons"] for one in result["poisoned"] if one["scenario"] == name]
        excluded = [reasons for reasons in tries if reasons]
        scenarios.append(
            {
                "scenario": name,
                "excluded": f"{len(excluded)} of {len(tries)}",
                "by co-occurrences alone": sum(
                    all(reason.startswith(_BY_LIFT) for reason in reasons) for reasons in excluded
                ),
                "first reason": excluded[0][0] if excluded else "–",
            }
        )
    normal = [
        {"day": one["day"], "reasons": "; ".join(one["reasons"])} for one in result["excluded"]
    ]
    title = f"Normal days of {result['log']} excluded: {len(normal)} of {result['n_days']}"
    return [
        Table(f"Poisoned days of {result['log']}", scenarios),
        Table(title, normal or [{"day": "none", "reasons": "–"}]),
    ]


def read_log(folder: Path, log: str) -> dict[date, Events]:
    """Return the events of every day (UTC) of a published log, in the order of time."""
    name, select = _LOGS[log]
    with duckdb.connect() as connection:
        columns = connection.execute(select, {"path": str(folder / name)}).fetchnumpy()
    events = Events(*(np.asarray(columns[key]) for key in ("users", "items", "times")))
    numbers = events.times // 86_400
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return {
        date.fromordinal(date(1970, 1, 1).toordinal() + int(numbers[part[0]])): events.take(part)
        for part in np.split(np.arange(len(events)), cuts)
    }


def _other_log(folder: Path, log: str) -> str:
    """Return another log that is there, or the same."""
    there = (name for name, (file, _) in _LOGS.items() if (folder / file).exists())
    return next((name for name in there if name != log), log)


class DayGate:
    """A warehouse of its own: days are delivered and admitted as in `interaction_matrix`."""

    def __init__(self, folder: Path) -> None:
        self._warehouse = Warehouse(load_settings(folder, {}))
        self._X: Csr | None = None

    def surroundings(self, other_shop: Events) -> Surroundings:
        """Return what is known so far, in the order of the ids' numbers."""
        with self._warehouse.reading() as connection:
            users, items = (
                np.array(
                    sorted(ids_by_position(connection, kind), key=lambda name: (len(name), name))
                )
                for kind in ("user", "item")
            )
        return Surroundings(users, items, other_shop)

    def try_day(self, day: date, events: Events) -> DayVerdict:
        """Return the verdict on a day; nothing of it is stored."""
        with self._warehouse.opened() as connection, _rolled_back(connection):
            return self._admit(connection, day, events)

    def deliver(self, day: date, events: Events) -> DayVerdict:
        """Ingest a day, and admit or exclude it."""
        with self._warehouse.connect() as connection:
            verdict = self._admit(connection, day, events)
            extend_dictionaries(connection, day)
        self._X = matrix_as_of(self._warehouse, day).interactions
        return verdict

    def _admit(self, connection: Connection, day: date, events: Events) -> DayVerdict:
        of_day, columns = {"day": str(day)}, ("users", "items", "times")
        lists = {name: getattr(events, name).tolist() for name in columns}
        connection.execute(_ROWS, {**of_day, **lists})
        connection.execute(_LEDGER, {**of_day, "n": len(events)})
        return admit(connection, day, self._X)


@contextmanager
def _rolled_back(connection: Connection) -> Iterator[None]:
    connection.begin()
    try:
        yield
    finally:
        connection.rollback()
