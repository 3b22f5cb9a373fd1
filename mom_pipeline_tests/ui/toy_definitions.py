"""Two connected assets: enough for the pages to have something to show and to run."""

import dagster as dg


@dg.asset(group_name="toy", pool="duckdb")
def first_number() -> int:
    return 20


@dg.asset(group_name="toy", pool="duckdb")
def doubled_number(first_number: int) -> int:
    return 2 * first_number


defs = dg.Definitions(assets=[first_number, doubled_number])
