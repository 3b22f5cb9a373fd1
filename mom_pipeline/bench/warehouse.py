"""Speed of ingest against a bare CREATE TABLE AS SELECT FROM read_csv, in the same run."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.bench.measure import Seconds, compare, timed
from mom_pipeline.logs.ingest import ingest_file
from mom_pipeline.logs.logfiles import log_file
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

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
_BARE = """
CREATE TABLE events AS
SELECT * FROM read_csv(
    $path, header = true,
    columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'timestamp': 'TIMESTAMPTZ'}
)
"""


def run_ingest(rows: int = 10_000_000, repeats: int = 3) -> dict[str, Any]:
    """Seconds of both, best of `repeats`, taken in turns; and their ratio."""
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as name:
        root = Path(name)
        csv = root / "data" / "logs" / "2024-03-01.csv"
        csv.parent.mkdir(parents=True)
        with duckdb.connect() as connection:
            connection.execute(_WRITE_DAY, {"rows": rows, "path": str(csv)})
        bare, ours = [], []
        for _ in range(repeats):
            bare.append(_time_bare(root / "bare.duckdb", csv))
            ours.append(_time_ingest(root / "data", csv, rows))
        size = csv.stat().st_size
    return {
        "rows": rows,
        "csv_bytes": size,
        **compare("ingest", ours, bare),
        "rows_per_second": rows / min(seconds.wall for seconds in ours),
    }


def _time_bare(database: Path, csv: Path) -> Seconds:
    database.unlink(missing_ok=True)

    def create() -> None:
        with duckdb.connect(str(database)) as connection:
            connection.execute(_BARE, {"path": str(csv)})

    return timed(create)[0]


def _time_ingest(data_dir: Path, csv: Path, rows: int) -> Seconds:
    settings = load_settings(data_dir, {})
    settings.warehouse_path.unlink(missing_ok=True)
    shutil.rmtree(settings.scratch_dir, ignore_errors=True)
    file = log_file(csv, settings.logs_dir)
    seconds, outcome = timed(lambda: ingest_file(Warehouse(settings), file))
    if outcome.rows_accepted != rows:
        raise AssertionError(f"{outcome.rows_accepted} of {rows} rows were accepted")
    return seconds
