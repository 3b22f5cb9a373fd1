"""Benchmarks of ingest and of the matrix as of a day, against bare DuckDB in the same run."""

import shutil
import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.bench.measure import (
    Progress,
    Seconds,
    best_in_turns,
    compare,
    no_progress,
    timed,
)
from mom_pipeline.logs.ingest import ingest_file
from mom_pipeline.logs.logfiles import log_file
from mom_pipeline.settings import MatrixSettings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import matrix_as_of

# Multiplicative hashing: the same rows on every machine, whatever the number of threads.
_WRITE_DAY = """
COPY (
    SELECT
        'user-' || (n * 2654435761 % 1000003) AS "user",
        'item-' || (n * 40503 % 100003) AS item,
        strftime(TIMESTAMP '2024-03-01' + to_seconds(n * 86399 // $rows), '%Y-%m-%dT%H:%M:%S')
            || '+00:00' AS timestamp
    FROM range($rows) AS t(n)
) TO $path (FORMAT csv, HEADER)
"""
_BARE_INGEST = """
CREATE TABLE events AS
SELECT * FROM read_csv(
    $path, header = true,
    columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'timestamp': 'TIMESTAMPTZ'}
)
"""
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
_BARE_MATRIX = "SELECT user_id, item_id, count(*) AS n FROM raw_logs GROUP BY ALL"


def run_ingest(
    rows: int = 10_000_000, repeats: int = 3, *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Seconds of both, best of `repeats`, taken in turns; and their ratio."""
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as name:
        root = Path(name)
        csv = root / "data" / "logs" / "2024-03-01.csv"
        csv.parent.mkdir(parents=True)
        with duckdb.connect() as connection:
            connection.execute(_WRITE_DAY, {"rows": rows, "path": str(csv)})
        works = {
            "bare": lambda: _time_bare_ingest(root / "bare.duckdb", csv),
            "ours": lambda: _time_ingest(root / "data", csv, rows),
        }
        best = best_in_turns(works, repeats, progress=lambda share: progress("ingest", share))
        size = csv.stat().st_size
    return {
        "rows": rows,
        "csv_bytes": size,
        **compare("ingest", best),
        "rows_per_second": rows / best["ours"].wall,
    }


def _time_bare_ingest(database: Path, csv: Path) -> Seconds:
    database.unlink(missing_ok=True)

    def create() -> None:
        with duckdb.connect(str(database)) as connection:
            connection.execute(_BARE_INGEST, {"path": str(csv)})

    return timed(create)[0]


def _time_ingest(data_dir: Path, csv: Path, rows: int) -> Seconds:
    settings = load_settings(data_dir, {})
    settings.warehouse_path.unlink(missing_ok=True)
    shutil.rmtree(settings.scratch_dir, ignore_errors=True)
    file = log_file(csv, settings.logs_dir)
    seconds, entry = timed(lambda: ingest_file(Warehouse(settings), file))
    if entry.rows_accepted != rows:
        raise AssertionError(f"{entry.rows_accepted} of {rows} rows were accepted")
    return seconds


def run_matrix(
    pairs: int = 5_700_000, repeats: int = 3, *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Seconds of the matrix and of the bare GROUP BY."""
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as name:
        settings = load_settings(Path(name), {})
        warehouse = Warehouse(replace(settings, matrix=MatrixSettings(min_item_users=5)))
        last = _FIRST + timedelta(days=_N_DAYS - 1)
        for number in range(_N_DAYS):
            _deliver(warehouse, number, pairs // _N_DAYS)
        first, state = timed(lambda: matrix_as_of(warehouse, last))
        works = {
            "bare": lambda: _time_bare_matrix(warehouse),
            "ours": lambda: timed(lambda: matrix_as_of(warehouse, last))[0],
        }
        best = best_in_turns(works, repeats, progress=lambda share: progress("matrix", share))
        return {
            "users": _USERS,
            "items": _ITEMS,
            "events": pairs // _N_DAYS * _N_DAYS,
            "pairs_after_filter": int(state.interactions.nnz),
            **compare("matrix", best),
            "with_new_dictionaries_seconds": first.wall,
        }


def _deliver(warehouse: Warehouse, number: int, events: int) -> None:
    with warehouse.connect() as connection:
        day = _FIRST + timedelta(days=number)
        size = {"first": number * _MOST_EVENTS_PER_DAY, "events": events}
        names = {"number": number, "day": day.isoformat(), "users": _USERS, "items": _ITEMS}
        connection.execute(_INSERT_EVENTS, size | names)
        connection.execute(_INSERT_LEDGER)


def _time_bare_matrix(warehouse: Warehouse) -> Seconds:
    """The faster of two ways to have the result: counted, or stored in a temporary table."""
    with warehouse.connect() as connection:
        counted, _ = timed(
            lambda: connection.execute(f"SELECT count(*), sum(n) FROM ({_BARE_MATRIX})").fetchall()  # noqa: S608
        )
        stored, _ = timed(lambda: connection.execute(f"CREATE TEMP TABLE pairs AS {_BARE_MATRIX}"))
    return min(counted, stored, key=lambda seconds: seconds.wall)
