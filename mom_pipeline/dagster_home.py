"""Dagster's home below the data folder, and its configuration."""

import json
import os
from pathlib import Path

from mom_pipeline.core.files import write_text
from mom_pipeline.settings import Settings

CONFIGURATION = """\
# Written by mom-pipeline at every start: edits here are lost.
telemetry:
  enabled: false

# SQLite files below this folder, as by default, with fewer connections.
storage:
  custom:
    module: mom_pipeline.dagster_storage
    class: Storage
    config:
      base_dir: {home}

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


def prepare_dagster_home(settings: Settings) -> Path:
    """Write `dagster.yaml` into the data folder and point DAGSTER_HOME at it."""
    home = (settings.data_dir / "dagster_home").resolve()
    path, wanted = home / "dagster.yaml", CONFIGURATION.format(home=json.dumps(str(home)))
    if not path.is_file() or path.read_text(encoding="utf-8") != wanted:
        write_text(path, wanted)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ["DAGSTER_EVENT_BATCH_SIZE"] = str(EVENTS_PER_BATCH)
    return home
