"""`mom-pipeline bench`: measurements, with a peer in the same run wherever there is one."""

from collections.abc import Collection
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_SIZES = ("tafeng", "million-song", "yandex")
_METHODS = ("mom", "wrmf", "bpr", "plsi")
_CORES = ("one", "all", "both")
_LOGS = ("30music", "movietweetings", "online-retail")
# Bench -> module whose `run_NAME` it is; what that takes are its options.
_BENCHES = {
    "recovery": "accuracy",
    "gowalla": "accuracy",
    "paper": "paper",
    "daily": "daily",
    "growth": "growth",
    "year": "year",
    "day-gate": "day_gate",
    "unlearning": "unlearning",
    "query": "serving",
    "serve": "serving",
}


def several(known: Collection[str]) -> dict[str, Any]:
    """What an option is that takes some of the known names, comma-separated."""

    def names(_: object, __: object, value: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        given = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        if unknown := [name for name in given if name not in known]:
            raise click.BadParameter(
                f"unknown: {', '.join(unknown)}; the known ones are {', '.join(known)}"
            )
        return given

    return {"callback": names}


_SHARE, _LIMIT = click.FloatRange(min=0, min_open=True), click.FloatRange(min=0)
_SVG = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("name", type=click.Choice(list(_BENCHES)), metavar="NAME")
@click.argument("folder", type=_FOLDER, required=False)
@click.option("--scale", type=_SHARE, help="Share of the full size.")
@click.option("--log", type=click.Choice(_LOGS), help="The log in FOLDER, as published.")
@click.option("--days", type=click.IntRange(min=1), help="Of `year`, from the first.")
@click.option("--sizes", **several(_SIZES), help="Data sets of `paper`, comma-separated.")
@click.option("--methods", **several(_METHODS), help="Of `paper`, comma-separated.")
@click.option("--threads", type=click.Choice(_CORES), help="Cores of `paper`, which used one.")
@click.option("--time-budget", type=_LIMIT, help="Seconds of a method of `paper`; 0: no limit.")
@click.option("--plot", type=_SVG, help="Draw `recovery` to an SVG.")
@json_option
def bench(name: str, folder: Path | None, as_json: bool, **given: Any) -> None:
    """Measure accuracy and speed; print tables.

    \b
    recovery   error of O against a known truth, as the number of users grows, per estimator: only
               the unbiased one on repeat counts falls as 1/sqrt(N), others level off at their bias
    gowalla    ranking quality on the Gowalla split in FOLDER (train.txt.gz, test.txt.gz); settings
               are chosen on a held-out part of train, test is used once
    paper      the paper's Table 2: MoM, WRMF, BPR and PLSI on simulated data of its sizes, K = 100;
               a method past its time budget, from the start of its process, is shown as –
    daily      an incremental day against a full rebuild, by the share of changed users;
               1,000,000 users, 718,675 items, 5.7 M interactions, K = 100
    growth     seconds and memory of a fit of 1/8, 1/4, 1/2 and all of 10,000,000 users, from shards
    year       the log in FOLDER, day by day with the default settings: seconds and MB on disk
    day-gate   what the gate for new days excludes of the log in FOLDER, also of poisoned days
    unlearning forgetting the users that CURE4Rec removes, FOLDER/ml-100k and FOLDER/adm, beside
               retraining from scratch: lists equal, time, Recall@20 and nDCG@20 before and after
    query      the list of a single user against that of `implicit`, one thread each, in turns
    serve      load on a service of its own, with a promotion and a rollback in the middle

    \b
    Examples:
      mom-pipeline bench recovery --scale 0.1
      mom-pipeline bench year data/30music --days 60
    """  # noqa: D301 - \b tells click to keep the lines
    from mom_pipeline.bench.measure import tables_of
    from mom_pipeline.comparison.results import surroundings

    module = import_module(f"mom_pipeline.bench.{_BENCHES[name]}")
    run = getattr(module, f"run_{name}".replace("-", "_"))
    known, given = signature(run).parameters, {"folder": folder, **given}
    options = {option: value for option, value in given.items() if value is not None}
    words = {"folder": "FOLDER"}
    if foreign := [words.get(o, f"--{o.replace('_', '-')}") for o in options if o not in known]:
        raise click.UsageError(f"`bench {name}` has no {', '.join(foreign)}")
    if "folder" in known and folder is None:
        raise click.UsageError(f"`bench {name}` needs the FOLDER of its data")
    with step_progress(name) as progress:
        result = run(**options, progress=progress)
    where = surroundings()
    if as_json:
        print_json({**result, **where})
        return
    for table in tables_of(name, result):
        print_table(table.caption, table.columns, table.rows, numbers=table.columns[1:])
    click.echo(f"{where['machine']}; {where['created'][:10]}.")
