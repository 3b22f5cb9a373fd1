"""Dagster's home below the data folder: its configuration, and the days that failed.

Nothing of Dagster is imported here: that alone takes longer than most commands.
"""

import json
import os
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from mom_pipeline.core.files import write_text
from mom_pipeline.settings import Settings

# The name of the code location, however it is loaded: that which `-m` gives it.
CODE_LOCATION = "mom_pipeline.definitions"
CONFIGURATION = """\
# Written by mom-pipeline at every start: edits here are lost.
telemetry:
  enabled: false

# SQLite files below this folder, wherever it lies, as by default; with fewer connections.
storage:
  custom:
    module: mom_pipeline.dagster_storage
    class: Storage
    config:
      base_dir:
        env: DAGSTER_HOME

# No invitation to sign up over the first page.
nux:
  enabled: false

# DuckDB takes one writer. Dagster sets the limits of single pools in its database only; the
# default covers `duckdb`, the one pool of this project. A whole run holds the pool.
concurrency:
  pools:
    default_limit: 1
    granularity: run

# A worker that died is replaced. A failing asset would fail again: the method is deterministic.
run_retries:
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false

# The pages say which assets are late, by the policies of the assets.
freshness:
  enabled: true

# Runs that never start or never end are noticed, and dead ones give the pool back.
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
  cancel_timeout_seconds: 180
  poll_interval_seconds: 30
  free_slots_after_run_end_seconds: 30
"""
# Events of the days of a run that Dagster hands over together. It takes this from the environment
# alone.
EVENTS_PER_BATCH = 1000
# Partitions whose newest planned materialization was not made, by a run that failed.
_FAILED = """
SELECT planned.partition, planned.asset_key, planned.run_id
FROM (
    SELECT
        max(id) FILTER (WHERE dagster_event_type = 'ASSET_MATERIALIZATION_PLANNED') AS planned_id,
        max(id) FILTER (WHERE dagster_event_type = 'ASSET_MATERIALIZATION') AS made_id
    FROM event_logs
    WHERE dagster_event_type IN ('ASSET_MATERIALIZATION_PLANNED', 'ASSET_MATERIALIZATION')
        AND partition IS NOT NULL
    GROUP BY asset_key, partition
)
JOIN event_logs AS planned ON planned.id = planned_id
JOIN history.runs USING (run_id)
WHERE coalesce(made_id, 0) < planned_id AND runs.status = 'FAILURE'
"""


def prepare_dagster_home(settings: Settings) -> Path:
    """Write `dagster.yaml` into the data folder and point DAGSTER_HOME at it."""
    home = _home(settings)
    path = home / "dagster.yaml"
    if not path.is_file() or path.read_text(encoding="utf-8") != CONFIGURATION:
        write_text(path, CONFIGURATION)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = str(EVENTS_PER_BATCH)
    return home


def another_home(settings: Settings) -> str:
    """Return one line for whoever looks at another history than the commands write; or ""."""
    named, own = os.environ.get("DAGSTER_HOME"), _home(settings)
    if named and Path(named).resolve() == own:
        return ""
    return (
        f"DAGSTER_HOME is {named or 'not set'}, and the runs of mom-pipeline are in {own}: "
        f"export DAGSTER_HOME={own} to see them, or type `mom-pipeline ui`"
    )


def failed_days(settings: Settings, besides: Collection[str] = ()) -> dict[str, str]:
    """Return the days of which the newest attempt failed, each with the asset that did.

    An attempt failed when its run did before the asset was made. besides: assets that are not
    looked at.
    """
    history = _home(settings) / "history"
    index = history / "runs" / "index.db"
    if not index.is_file():
        return {}
    failed: dict[str, str] = {}
    with closing(sqlite3.connect(f"{index.as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute("ATTACH $runs AS history", {"runs": str(history / "runs.db")})
        for day, asset, run_id in connection.execute(_FAILED).fetchall():
            if json.loads(asset)[-1] not in besides:
                failed.setdefault(day, run_id)
    steps = {run_id: _failed_step(history, run_id) for run_id in set(failed.values())}
    return {day: steps[run_id] for day, run_id in failed.items()}


def _failed_step(history: Path, run_id: str) -> str:
    """Return the asset at which a run failed; its id where it failed before any."""
    events = history / "runs" / f"{run_id}.db"
    with closing(sqlite3.connect(f"{events.as_uri()}?mode=rw", uri=True)) as connection:
        rows = connection.execute(
            "SELECT step_key FROM event_logs WHERE dagster_event_type = 'STEP_FAILURE' "
            "ORDER BY id LIMIT 1"
        ).fetchall()
    return str(rows[0][0]) if rows else f"run {run_id}"


def _home(settings: Settings) -> Path:
    return (settings.data_dir / "dagster_home").resolve()
