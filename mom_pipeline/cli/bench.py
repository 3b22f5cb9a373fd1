"""`mom-pipeline bench`: measurements that print ratios against a peer in the same run."""

from pathlib import Path
from typing import Any

import click

from mom_pipeline.cli.bench_engine import bench_engine, bench_growth
from mom_pipeline.cli.bench_paper import bench_paper
from mom_pipeline.cli.bench_pipeline import bench_pipeline
from mom_pipeline.cli.terminal import json_option, print_json, print_table, share_progress


@click.group()
def bench() -> None:
    """Measure accuracy and speed; print tables."""


for command in (bench_paper, bench_engine, bench_growth, bench_pipeline):
    bench.add_command(command)


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
    """Matrix as of a day against the bare GROUP BY."""
    from mom_pipeline.bench.matrix import run_matrix

    _show("Matrix as of a day", run_matrix(pairs, repeats), as_json=as_json)


@bench.command("recovery")
@click.option("--max-users", default=320_000, show_default=True, help="Largest number of users.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also draw the error against the users, on log axes, to this PNG file.",
)
@json_option
def bench_recovery(max_users: int, seed: int, plot: Path | None, as_json: bool) -> None:
    """Error of O against a known truth, as the number of users grows, per estimator.

    Only the unbiased estimator on repeat counts keeps the promise of an error that falls as
    1/sqrt(N), a slope of -0.5; the others level off at their bias.
    """
    from mom_pipeline.bench.recovery import SIZES, plot_recovery, run_recovery

    sizes = [size for size in SIZES if size <= max_users] or [max_users]
    with share_progress("recovery") as progress:
        result = run_recovery(sizes, seed=seed, progress=progress)
    if plot is not None:
        plot_recovery(result, plot)
    if as_json:
        print_json(result)
        return
    rows = []
    for label, slope in result["slopes"].items():
        points = [p for p in result["points"] if f"{p['estimator']}, {p['data']}" == label]
        errors = [f"{p['error']:.3f}" for p in points]
        shown_slope = "–" if slope is None else f"{slope:+.2f}"
        rows.append((label, *errors, shown_slope, f"{points[-1]['weight_sum']:.3f}"))
    columns = ["mean L1 error of O", *(f"{size:,} users" for size in sizes), "slope", "Σλ⁻²"]
    print_table("Recovery of known classes (K = 8, D = 5,000)", columns, rows)


@bench.command("kernels")
@click.option("--users", default=1_000_000, show_default=True)
@click.option("--items", default=718_675, show_default=True)
@click.option("--pairs", default=5_670_000, show_default=True)
@click.option("--components", default=100, show_default=True)
@json_option
def bench_kernels(users: int, items: int, pairs: int, components: int, as_json: bool) -> None:
    """Tensor kernel against the machine's GEMM, whitening against one pair of sparse products."""
    from mom_pipeline.bench.kernels import run_kernels

    with share_progress("kernels") as progress:
        result = run_kernels(users, items, pairs, components, progress=progress)
    _show("Kernels", result, as_json)


@bench.command("topn")
@click.option("--users", default=1_000_000, show_default=True)
@click.option("--items", default=718_675, show_default=True)
@click.option("--pairs", default=5_669_541, show_default=True)
@click.option("--components", default=100, show_default=True)
@click.option("--length", default=100, show_default=True, help="Items of a list.")
@json_option
def bench_topn(
    users: int, items: int, pairs: int, components: int, length: int, as_json: bool
) -> None:
    """Exact lists for all users: 2,000 checked by brute force, and `implicit`'s topk beside."""
    from mom_pipeline.bench.topn import run_topn

    with share_progress("topn") as progress:
        result = run_topn(users, items, pairs, components, length, progress=progress)
    _show("Exact lists for everybody", result, as_json)


@bench.command("daily")
@click.option("--users", default=1_000_000, show_default=True)
@click.option("--items", default=718_675, show_default=True)
@click.option("--pairs", default=5_700_000, show_default=True)
@click.option("--components", default=100, show_default=True)
@json_option
def bench_daily(users: int, items: int, pairs: int, components: int, as_json: bool) -> None:
    """An incremental day against a full rebuild, as the share of changed users grows."""
    from mom_pipeline.bench.daily import run_daily

    with share_progress("daily") as progress:
        result = run_daily(users, items, pairs, components, progress=progress)
    if as_json:
        print_json(result)
        return
    days = result.pop("days")
    _show("Full rebuild", result, as_json=False)
    rows = [
        (
            f"{day['share_changed']:.1%}",
            f"{day['seconds']:.2f}",
            f"{day['to_full']:.1%}",
            f"{day['with_everyone_to_full']:.1%}",
        )
        for day in days
    ]
    columns = ["changed users", "seconds", "of a rebuild", "both with everyone's personalization"]
    print_table("Incremental days", columns, rows)


@bench.command("metrics")
@click.option("--users", default=1_000_000, show_default=True, help="Users for time and memory.")
@click.option("--peer-users", default=3_000, show_default=True, help="Users for the ratio.")
@click.option("--items", default=718_675, show_default=True)
@json_option
def bench_metrics(users: int, peer_users: int, items: int, as_json: bool) -> None:
    """Metrics of lists of 500 items: against ir_measures, and their time and memory."""
    from mom_pipeline.bench.metrics import run_metrics

    with share_progress("metrics") as progress:
        result = run_metrics(users, peer_users, items, progress=progress)
    _show("Metrics", result, as_json)


@bench.command("gowalla")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--components", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
@json_option
def bench_gowalla(folder: Path, components: int, seed: int, as_json: bool) -> None:
    """Ranking quality on the Gowalla split in FOLDER (train.txt.gz, test.txt.gz).

    All settings are chosen by the fit on a held-out part of train; test is used once.
    """
    from mom_pipeline.bench.gowalla import run_gowalla

    with share_progress("gowalla") as progress:
        result = run_gowalla(folder, components, seed=seed, progress=progress)
    if as_json:
        print_json(result)
        return
    names = ("recall", "ndcg", "map")
    rows = [
        (
            row["method"],
            *(f"{row[name]:.4f}" for name in names),
            f"{row['fit_seconds']:.1f}",
            f"{row['recommend_seconds']:.1f}",
        )
        for row in result["rows"]
    ]
    columns = ["method", "Recall@20", "nDCG@20", "MAP@20", "fit, s", "top 20 for all, s"]
    print_table(f"Gowalla, {result['rows'][0]['users']:,} test users", columns, rows)
    weights = result["rows"][-1]["ranking_weights"]
    _show("Ranking weights, chosen on a held-out part of train", weights, as_json=False)


@bench.command("query")
@click.option("--items", default=100_000, show_default=True)
@click.option("--components", default=100, show_default=True)
@click.option("--questions", default=400, show_default=True)
@json_option
def bench_query(items: int, components: int, questions: int, as_json: bool) -> None:
    """The list of a single user against that of `implicit`, one thread each, in turns.

    Popularity falls as rank^-skew; with a skew of 0 no item can be ruled out early.
    """
    from mom_pipeline.bench.query import run_query

    with share_progress("query") as progress:
        result = run_query(items, components, questions, progress=progress)
    if as_json:
        print_json(result)
        return
    names = ("ours_median_ms", "ours_p99_ms", "implicit_median_ms", "implicit_p99_ms", "ratio")
    rows = [
        (row["ranking"], f"{row['skew']:.1f}", *(f"{row[name]:.2f}" for name in names))
        for row in result["rows"]
    ]
    columns = ["ranking", "skew", *(name.replace("_", " ") for name in names)]
    print_table(f"One user, D = {items:,}, K = {components}", columns, rows)


@bench.command("serve")
@click.option("--items", default=100_000, show_default=True)
@click.option("--components", default=100, show_default=True)
@click.option("--requests", default=3_000, show_default=True)
@click.option("--clients", default=4, show_default=True)
@json_option
def bench_serve(items: int, components: int, requests: int, clients: int, as_json: bool) -> None:
    """Load on a service of its own, with a promotion and a rollback in the middle."""
    from mom_pipeline.bench.serve import run_serve

    with share_progress("serve") as progress:
        result = run_serve(items, components, requests, clients, progress=progress)
    _show("Service under load", result, as_json)


def _show(title: str, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    rows = [
        (name.replace("_", " "), round(value, 3) if isinstance(value, float) else value)
        for name, value in result.items()
    ]
    print_table(title, ["", "value"], rows)
