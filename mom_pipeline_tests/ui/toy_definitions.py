"""Assets without a pipeline: enough to be asked for, and to run."""

import os
from pathlib import Path

import dagster as dg

from mom_pipeline_tests.running import wait_until


@dg.asset(pool="duckdb")
def unrelated_number() -> int:
    return 3


@dg.asset(pool="duckdb")
def patient_number() -> int:
    """Says that it has begun, and ends when it is told to."""
    data_dir = Path(os.environ["MOM_DATA_DIR"])
    (data_dir / "begun").touch()
    wait_until((data_dir / "may_end").exists, "the permission to end", 120)
    return 4


defs = dg.Definitions(assets=[unrelated_number, patient_number])
