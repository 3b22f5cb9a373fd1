"""`mom-pipeline bench`: measurements that print ratios against a peer in the same run."""

from typing import Any

import click

from mom_pipeline.commands.terminal import json_option, print_json, print_table


@click.group()
def bench() -> None:
    """Measure accuracy and speed; print tables."""


@bench.command("ingest")
@click.option("--rows", default=10_000_000, show_default=True, help="Rows of the day.")
@click.option("--repeats", default=3, show_default=True, help="The best of so many is taken.")
@json_option
def bench_ingest(rows: int, repeats: int, as_json: bool) -> None:
    """Ingest of one CSV day against a bare CREATE TABLE AS SELECT FROM read_csv."""
    from mom_pipeline.bench.ingest import run_ingest

    _show("Ingest", run_ingest(rows, repeats), as_json)


@bench.command("matrix")
@click.option("--pairs", default=5_700_000, show_default=True, help="User-item pairs.")
@click.option("--repeats", default=3, show_default=True, help="The best of so many is taken.")
@json_option
def bench_matrix(pairs: int, repeats: int, as_json: bool) -> None:
    """Matrix as of a day against the bare GROUP BY, and the changed users of the next day."""
    from mom_pipeline.bench.matrix import run_matrix

    result = run_matrix(pairs, repeats)
    if as_json:
        print_json(result)
        return
    changes = result.pop("changed_users")
    _show("Matrix as of a day", result, as_json=False)
    rows = [(c["users_with_events"], c["changed"], round(c["seconds"], 3)) for c in changes]
    print_table("Changed users", ["users with events", "changed", "seconds"], rows)


def _show(title: str, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    rows = [
        (name.replace("_", " "), round(value, 3) if isinstance(value, float) else value)
        for name, value in result.items()
    ]
    print_table(title, ["", "value"], rows)
