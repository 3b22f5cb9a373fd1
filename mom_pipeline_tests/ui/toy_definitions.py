"""Connected assets in one group and one apart: enough for the pages to show and to run."""

import dagster as dg


@dg.asset(group_name="toy", pool="duckdb")
def first_number() -> int:
    return 20


@dg.asset(group_name="toy", pool="duckdb")
def doubled_number(first_number: int) -> int:
    return 2 * first_number


@dg.asset(group_name="apart", pool="duckdb")
def unrelated_number() -> int:
    return 3


defs = dg.Definitions(assets=[first_number, doubled_number, unrelated_number])
