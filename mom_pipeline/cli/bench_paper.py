"""`mom-pipeline bench paper`: the paper's Table 2 again, beside the paper's own figures."""

from collections.abc import Callable
from typing import Any

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress

_SIZES = ("tafeng", "million-song", "yandex")
_METHODS = ("mom", "wrmf", "bpr", "plsi")
_MISSING = "–"


def _names_among(*known: str) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Return the reading of an option: some of the known names, with commas between."""

    def names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        unknown = [name for name in found if name not in known]
        if unknown:
            raise click.BadParameter(
                f"unknown: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        return found

    return names


@click.command("paper")
@click.option(
    "--sizes",
    default=",".join(_SIZES),
    show_default=True,
    callback=_names_among(*_SIZES),
    help="Data sets of the paper whose sizes are taken.",
)
@click.option(
    "--methods",
    default=",".join(_METHODS),
    show_default=True,
    callback=_names_among(*_METHODS),
    help="Some of them, with commas between.",
)
@click.option(
    "--threads",
    default="both",
    show_default=True,
    type=click.Choice(["one", "all", "both"]),
    help="Cores of a method; the paper used one.",
)
@click.option(
    "--time-budget",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for a method, from the start of its process; 0: no limit.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@json_option
def bench_paper(
    sizes: tuple[str, ...],
    methods: tuple[str, ...],
    threads: str,
    time_budget: float,
    seed: int,
    as_json: bool,
) -> None:
    """Time MoM, WRMF, BPR and PLSI on simulated data of the paper's sizes, K = 100.

    Each runs alone in a process of its own. Seconds are those of the fit, up to the classes or
    factors of every user; a method past its time budget is shown as –.
    """
    from mom_pipeline.bench.paper import SIZES, run_paper

    modes = ("one", "all") if threads == "both" else (threads,)
    with step_progress("paper") as progress:
        result = run_paper(
            [SIZES[name] for name in sizes],
            methods,
            modes,
            time_budget=time_budget,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_json(result)
        return
    for size in result["sizes"]:
        _show_methods(size)
        _show_stages(size)


def _show_methods(size: dict[str, Any]) -> None:
    """Print a line per method and mode, and below why there are none."""
    title = (
        f"{size['title']}: {size['n_users']:,} users, {size['n_items']:,} items, "
        f"{size['n_pairs']:,} pairs"
    )
    columns = ["method", "threads", "seconds", "to MoM", "peak, GB", "paper, s", "paper, to MoM"]
    rows = [
        (
            row["title"],
            row["threads"],
            _shown(row["seconds"], ",.1f"),
            _shown(row["to_mom"], ",.2f"),
            _shown(row["peak_bytes"], ",.2f", unit=1e9),
            _shown(row["paper_seconds"], ",.0f"),
            _shown(row["paper_to_mom"], ",.2f"),
        )
        for row in size["rows"]
    ]
    print_table(title, columns, rows, numbers=columns[2:])
    for row in size["rows"]:
        if row["failure"]:
            click.echo(f"{row['title']}, threads {row['threads']}: {row['failure']}")


def _show_stages(size: dict[str, Any]) -> None:
    """Print where the time of MoM goes, a column per mode."""
    stages = {
        row["threads"]: row["notes"]["stages"] for row in size["rows"] if "stages" in row["notes"]
    }
    if not stages:
        return
    columns = ["stage", *(f"threads {mode}, s" for mode in stages)]
    names = next(iter(stages.values()))
    rows = [
        (name, *(_shown(seconds[name], ",.2f") for seconds in stages.values())) for name in names
    ]
    print_table(f"{size['title']}: stages of MoM", columns, rows, numbers=columns[1:])


def _shown(value: float | None, form: str, *, unit: float = 1.0) -> str:
    return _MISSING if value is None else format(value / unit, form)
