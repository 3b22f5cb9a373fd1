"""`mom-pipeline bench engine` and `bench growth`: users in shards, on workers and streamed."""

from pathlib import Path

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress


@click.command("engine")
@click.option("--users", default=800_000, show_default=True)
@click.option("--items", default=200_000, show_default=True)
@click.option("--pairs", default=4_800_000, show_default=True)
@click.option("--components", default=100, show_default=True)
@json_option
def bench_engine(users: int, items: int, pairs: int, components: int, as_json: bool) -> None:
    """Every pass on one and on two Dask workers of this machine, one core each.

    strong: one worker to two, the same users (2 is perfect). weak: one worker with half of the
    users to two with all (1 is perfect). Then, from these constants, a pass over 1 billion users,
    10 million items and 20 billion pairs on 100 workers.
    """
    from mom_pipeline.bench.engine import run_engine

    with step_progress("engine") as progress:
        result = run_engine(users, items, pairs, components, progress=progress)
    if as_json:
        print_json(result)
        return
    columns = ["pass", "local, s", "one worker, s", "two, s", "strong", "weak", "sent, MB",
               "passed on, MB"]  # fmt: skip
    rows = [
        (
            row["pass"],
            *(f"{row[name]:.2f}" for name in (
                "local_seconds", "one_worker_seconds", "two_workers_seconds", "strong", "weak")),
            *(f"{row[name] / 1e6:,.1f}" for name in ("sent_bytes", "passed_on_bytes")),
        )
        for row in result["rows"]
    ]  # fmt: skip
    title = f"{users:,} users, {items:,} items, {pairs:,} pairs in {result['shards']} shards"
    print_table(title, columns, rows, numbers=columns[1:])
    for title, name in (("Constants of one core", "constants"), ("On 100 workers", "projected")):
        rows = [(key.replace("_", " "), f"{value:,.2f}") for key, value in result[name].items()]
        print_table(title, ["", "value"], rows, numbers=["value"])


@click.command("growth")
@click.option("--users", default=10_000_000, show_default=True, help="Of the largest run.")
@click.option("--items", default=718_675, show_default=True)
@click.option("--pairs", default=57_000_000, show_default=True, help="Of the largest run.")
@click.option("--components", default=100, show_default=True)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw time and memory against the users to this PNG file.",
)
@json_option
def bench_growth(
    users: int, items: int, pairs: int, components: int, plot: Path | None, as_json: bool
) -> None:
    """Fit an eighth, a quarter, a half and all users, streamed from shards on this machine.

    Each in a process of its own; with everybody's memberships, written to files.
    """
    from mom_pipeline.bench.growth import plot_growth, run_growth

    with step_progress("growth") as progress:
        result = run_growth(users, items, pairs, components, progress=progress)
    if plot is not None:
        plot_growth(result, plot)
    if as_json:
        print_json(result)
        return
    columns = ["users", "pairs", "seconds", "multiple", "of which fit", "peak, GB", "multiple "]
    rows = [
        (
            f"{row['n_users']:,}",
            f"{row['n_pairs']:,}",
            f"{row['seconds']:.1f}",
            f"{row['seconds_to_first']:.2f}",
            f"{row['fit_seconds']:.1f}",
            f"{row['peak_bytes'] / 1e9:.2f}",
            f"{row['peak_to_first']:.2f}",
        )
        for row in result["rows"]
    ]
    print_table(f"Growth, {items:,} items, K = {components}", columns, rows, numbers=columns)
