"""`mom-pipeline bench`: measurements, with a peer in the same run wherever there is one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_SIZES = ("tafeng", "million-song", "yandex")
_METHODS = ("mom", "wrmf", "bpr", "plsi")
_LOGS = ("30music", "movietweetings", "online-retail")


@dataclass(frozen=True)
class _Bench:
    """Where a bench is, as `run_NAME` of a module, and what it takes, with the defaults."""

    module: str
    options: Mapping[str, Any]
    folder: bool = False


_SCALE: dict[str, Any] = {"scale": 1.0}
_BENCHES = {
    "recovery": _Bench("accuracy", {**_SCALE, "plot": None}),
    "gowalla": _Bench("accuracy", {}, folder=True),
    "paper": _Bench(
        "paper", {"sizes": _SIZES, "methods": _METHODS, "threads": "both", "time_budget": 3600.0}
    ),
    "daily": _Bench("daily", _SCALE),
    "growth": _Bench("growth", _SCALE),
    "year": _Bench("year", {"log": _LOGS[0], "days": 366}, folder=True),
    "day-gate": _Bench("day_gate", {"log": _LOGS[0]}, folder=True),
    "query": _Bench("serving", _SCALE),
    "serve": _Bench("serving", _SCALE),
}


def several(known: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of an option that takes some of the known names, comma-separated."""

    def names(
        ctx: click.Context, param: click.Parameter, value: str | None
    ) -> tuple[str, ...] | None:
        if value is None:
            return None
        given = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        if unknown := [name for name in given if name not in known]:
            raise click.BadParameter(
                f"unknown: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        return given

    return {"callback": names}


@click.command()
@click.argument("name", type=click.Choice(list(_BENCHES)), metavar="NAME")
@click.argument("folder", type=_FOLDER, required=False)
@click.option(
    "--scale", type=click.FloatRange(min=0, min_open=True), help="Share of the full size."
)
@click.option("--log", type=click.Choice(_LOGS), help="The log in FOLDER, as published.")
@click.option("--days", type=click.IntRange(min=1), help="Of `year`, from the first.")
@click.option("--sizes", **several(_SIZES), help="Data sets of `paper`, comma-separated.")
@click.option("--methods", **several(_METHODS), help="Of `paper`, comma-separated.")
@click.option(
    "--threads",
    type=click.Choice(["one", "all", "both"]),
    help="Cores of a method of `paper`, which used one.",
)
@click.option(
    "--time-budget",
    type=click.FloatRange(min=0),
    help="Seconds for a method of `paper`, from the start of its process; 0: no limit.",
)
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw `recovery` to an SVG."
)
@json_option
def bench(name: str, folder: Path | None, as_json: bool, **given: Any) -> None:
    """Measure accuracy and speed; print tables.

    \b
    recovery   error of O against a known truth, as the number of users grows, per estimator: only
               the unbiased one on repeat counts falls as 1/sqrt(N), others level off at their bias
    gowalla    ranking quality on the Gowalla split in FOLDER (train.txt.gz, test.txt.gz); settings
               are chosen on a held-out part of train, test is used once
    paper      the paper's Table 2: MoM, WRMF, BPR and PLSI on simulated data of its sizes, K = 100;
               a method past its time budget is shown as –
    daily      an incremental day against a full rebuild, by the share of changed users;
               1,000,000 users, 718,675 items, 5.7 M interactions, K = 100
    growth     seconds and memory of a fit of 1/8, 1/4, 1/2 and all of 10,000,000 users, from shards
    year       the log in FOLDER, day by day with the default settings: seconds and MB on disk
    day-gate   what the gate for new days excludes of the log in FOLDER, also of poisoned days
    query      the list of a single user against that of `implicit`, one thread each, in turns
    serve      load on a service of its own, with a promotion and a rollback in the middle

    \b
    Examples:
      mom-pipeline bench recovery --scale 0.1
      mom-pipeline bench year data/30music --days 60
    """  # noqa: D301 - \b tells click to keep the lines
    of = _BENCHES[name]
    named = {option: value for option, value in given.items() if value is not None}
    if foreign := [f"--{n.replace('_', '-')}" for n in named if n not in of.options]:
        raise click.UsageError(f"`bench {name}` has no {', '.join(foreign)}")
    if of.folder != (folder is not None):
        needs = "needs the FOLDER of its data" if of.folder else "has no FOLDER"
        raise click.UsageError(f"`bench {name}` {needs}")
    options = {**of.options, **named, **({"folder": folder} if of.folder else {})}
    plot = options.pop("plot", None)
    result = _run(of.module, name.replace("-", "_"), as_json, **options)
    if plot is not None:
        from mom_pipeline.bench.accuracy import recovery_chart
        from mom_pipeline.core.files import write_bytes
        from mom_pipeline.pictures.svg import svg

        write_bytes(plot, svg(recovery_chart(result)))


def _run(module: str, name: str, as_json: bool, **arguments: Any) -> dict[str, Any]:
    """Run `run_NAME` of a module, and print its result as tables or as JSON."""
    from mom_pipeline.bench.measure import tables_of
    from mom_pipeline.comparison.results import surroundings

    own = import_module(f"mom_pipeline.bench.{module}")
    run: Callable[..., dict[str, Any]] = getattr(own, f"run_{name}")
    with step_progress(name) as progress:
        result = run(**arguments, progress=progress)
    where = surroundings()
    if as_json:
        print_json({**result, **where})
        return result
    tables = getattr(own, f"tables_{name}", None)
    for table in tables(result) if tables else tables_of(name, result):
        print_table(table.title, table.columns, table.rows, numbers=table.columns[1:])
    click.echo(f"{where['machine']}; {where['created'][:10]}.")
    return result
