"""Connected assets in one group and one apart: enough for the pages to show and to run."""

import os
from pathlib import Path

import dagster as dg

from mom_pipeline_tests.ui.waiting import wait_until


@dg.asset(group_name="toy", pool="duckdb")
def first_number() -> int:
    return 20


@dg.asset(group_name="toy", pool="duckdb")
def doubled_number(first_number: int) -> int:
    return 2 * first_number


@dg.asset(group_name="apart", pool="duckdb")
def unrelated_number() -> int:
    return 3


@dg.asset(group_name="apart", pool="duckdb")
def patient_number() -> int:
    """Says that it has begun, and ends when it is told to."""
    data_dir = Path(os.environ["MOM_DATA_DIR"])
    (data_dir / "begun").touch()
    wait_until((data_dir / "may_end").exists, 120, "the permission to end")
    return 4


@dg.asset(
    group_name="days",
    pool="duckdb",
    partitions_def=dg.DailyPartitionsDefinition("2024-03-01", end_date="2024-03-04"),
)
def daily_number(context: dg.AssetExecutionContext) -> int:
    context.log.info(f"counted for {context.partition_key}")
    return int(context.partition_key[-2:])


defs = dg.Definitions(
    assets=[first_number, doubled_number, unrelated_number, patient_number, daily_number]
)
