"""Speed of the state as of a day: the matrix against the bare GROUP BY."""

import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from mom_pipeline.bench.timing import Seconds, compare, timed
from mom_pipeline.settings import MatrixSettings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import matrix_as_of

_FIRST = date(2024, 3, 1)
_N_DAYS = 14
_ITEMS = 718_675  # as many as in the paper's Yandex data, and as many users
_USERS = 1_000_000
_MOST_EVENTS_PER_DAY = 10**9

# Cubed uniform draws make items about as unequal as clicks on URLs.
_INSERT_EVENTS = """
INSERT INTO raw_logs
SELECT
    'day-' || $number, n, $day::DATE, $day::TIMESTAMPTZ,
    'user-' || (hash(2 * n) % $users),
    'url-' || ($items * power((hash(2 * n + 1) % 1000003) / 1000003, 3))::BIGINT,
    1
FROM range($first, $first + $events) AS t(n)
"""
_INSERT_LEDGER = """
INSERT INTO ingest_ledger
SELECT
    source_file, any_value(delivery_day), 0, source_file, count(*), 0, count(*), 0, 0, '', '', now()
FROM raw_logs ANTI JOIN ingest_ledger USING (source_file)
GROUP BY source_file
"""
_BARE = "SELECT user_id, item_id, count(*) AS n FROM raw_logs GROUP BY ALL"


def run_matrix(pairs: int = 5_700_000, repeats: int = 3) -> dict[str, Any]:
    """Seconds of the matrix and of the bare GROUP BY, best of `repeats`, taken in turns."""
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as name:
        settings = load_settings(Path(name), {})
        warehouse = Warehouse(replace(settings, matrix=MatrixSettings(min_item_users=5)))
        last = _FIRST + timedelta(days=_N_DAYS - 1)
        for number in range(_N_DAYS):
            _deliver(warehouse, number, pairs // _N_DAYS)
        first, state = timed(lambda: matrix_as_of(warehouse, last))
        bare, ours = [], []
        for _ in range(repeats):
            bare.append(_time_bare(warehouse))
            ours.append(timed(lambda: matrix_as_of(warehouse, last))[0])
        return {
            "users": _USERS,
            "items": _ITEMS,
            "events": pairs // _N_DAYS * _N_DAYS,
            "pairs_after_filter": int(state.interactions.nnz),
            **compare("matrix", ours, bare),
            "with_new_dictionaries_seconds": first.wall,
        }


def _deliver(warehouse: Warehouse, number: int, events: int) -> None:
    with warehouse.connect() as connection:
        day = _FIRST + timedelta(days=number)
        size = {"first": number * _MOST_EVENTS_PER_DAY, "events": events}
        names = {"number": number, "day": day.isoformat(), "users": _USERS, "items": _ITEMS}
        connection.execute(_INSERT_EVENTS, size | names)
        connection.execute(_INSERT_LEDGER)


def _time_bare(warehouse: Warehouse) -> Seconds:
    """The faster of two ways to have the result: counted, or stored in a temporary table."""
    with warehouse.connect() as connection:
        counted, _ = timed(
            lambda: connection.execute(f"SELECT count(*), sum(n) FROM ({_BARE})").fetchall()  # noqa: S608
        )
        stored, _ = timed(lambda: connection.execute(f"CREATE TEMP TABLE pairs AS {_BARE}"))
    return min(counted, stored, key=lambda seconds: seconds.wall)
