"""`mom-pipeline bench`: measurements; `reproduce`: the paper, claim by claim, on this machine."""

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import asdict
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.bench.claims import Claim, claims_of
from mom_pipeline.bench.measure import tables_of
from mom_pipeline.bench.paper import METHODS, SIZES
from mom_pipeline.bench.reproduction import (
    QUICK,
    Plan,
    log_split,
    render_reproduction,
    run_reproduction,
)
from mom_pipeline.cli.run import ingest_new
from mom_pipeline.cli.terminal import json_option, print_json, print_table, progress_bar
from mom_pipeline.comparison.results import surroundings
from mom_pipeline.comparison.split import Split
from mom_pipeline.core.files import write_text
from mom_pipeline.datasets.importing import read_summary
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_LOGS = ("30music", "movietweetings", "online-retail")
# Bench -> module whose `run_NAME` it is; what that takes are its options.
_BENCHES = {
    "recovery": "accuracy",
    "gowalla": "accuracy",
    "paper": "paper",
    "daily": "daily",
    "growth": "growth",
    "year": "growth",
    "day-gate": "day_gate",
    "poison": "day_gate",
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


_SHARE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("name", type=click.Choice(list(_BENCHES)), metavar="NAME")
@click.argument("folder", type=_FOLDER, required=False)
@click.option("--scale", type=_SHARE, help="Share of the full size.")
@click.option("--log", type=click.Choice(_LOGS), help="The log in FOLDER, as published.")
@click.option("--days", type=click.IntRange(min=1), help="Of `year`, from the first.")
@click.option("--sizes", **several(SIZES), help="Data sets of `paper`, comma-separated.")
@click.option("--methods", **several(METHODS), help="Of `paper`, comma-separated.")
@json_option
def bench(name: str, folder: Path | None, as_json: bool, **given: Any) -> None:
    """Measure accuracy and speed; print tables.

    \b
    recovery   error of O against a known truth, as the number of users grows, per estimator: only
               the unbiased one on repeat counts falls as 1/sqrt(N), others level off at their bias;
               refined by EM beside EM from the truth and the Cramér-Rao bound; with the FOLDER of
               the logs, likelihood of what held-out users took beside 20 starts of PLSI
    gowalla    ranking quality on the Gowalla split in FOLDER (train.txt.gz, test.txt.gz); settings
               are chosen on a held-out part of train, test is used once
    paper      the paper's Table 2: MoM, WRMF, BPR and PLSI on simulated data of its sizes, K = 100,
               on one core, as the paper, and on all; a method past an hour, from the start of its
               process, is shown as –
    daily      an incremental day against a full rebuild, by the share of changed users;
               1,000,000 users, 718,675 items, 5.7 M interactions, K = 100
    growth     seconds and memory of a fit of 1/8, 1/4, 1/2 and all of 10,000,000 users, from shards
    year       the log in FOLDER, day by day with the default settings: seconds and MB on disk
    day-gate   what the gate for new days excludes of the log in FOLDER, also of poisoned days
    poison     1 % of all accounts take one new item on the newest day of the log in FOLDER: the
               share of people whose top 20 it enters
    unlearning forgetting the users that CURE4Rec removes, FOLDER/ml-100k and FOLDER/adm, beside
               retraining from scratch: lists equal, time, Recall@20 and nDCG@20 before and after
    query      the list of a single user against that of `implicit`, one thread each, in turns
    serve      load on a service of its own, with a promotion and a rollback in the middle

    \b
    Examples:
      mom-pipeline bench recovery --scale 0.1
      mom-pipeline bench year data/30music --days 60
    """  # noqa: D301 - \b tells click to keep the lines
    module = import_module(f"mom_pipeline.bench.{_BENCHES[name]}")
    run = getattr(module, f"run_{name}".replace("-", "_"))
    known, given = signature(run).parameters, {"folder": folder, **given}
    options = {option: value for option, value in given.items() if value is not None}
    words = {"folder": "FOLDER"}
    if foreign := [words.get(o, f"--{o.replace('_', '-')}") for o in options if o not in known]:
        raise click.UsageError(f"`bench {name}` has no {', '.join(foreign)}")
    if "folder" in known and folder is None and known["folder"].default is Parameter.empty:
        raise click.UsageError(f"`bench {name}` needs the FOLDER of its data")
    with progress_bar(name) as progress:
        result = run(**options, progress=progress)
    where = surroundings()
    if as_json:
        print_json({**result, **where})
        return
    for table in tables_of(name, result):
        print_table(table.caption, table.columns, table.rows)
    click.echo(f"{where['machine']}; {where['created'][:10]}.")


@click.command()
@click.option("--quick", is_flag=True, help="Toy sizes, in less than a minute.")
@click.option("folders", "--data", type=_FOLDER, multiple=True, help="Folders with logs of yours.")
@click.option("--sizes", **several(SIZES), help="Data sets of the paper, comma-separated.")
@json_option
def reproduce(
    quick: bool, folders: tuple[Path, ...], sizes: tuple[str, ...] | None, as_json: bool
) -> None:
    """Go through the paper claim by claim: what it says, its figure, ours, the verdict.

    Measured are the error of O against a known truth, Tables 1 and 2 and curves like Figure 2,
    on simulated data of the paper's sizes and on the logs of --data: trained on the paper's days
    of its own data sets, on three quarters of the days of others. All sizes take hours; every
    method has a process, one core for Table 2, 8 GB and an hour of its own.

    \b
    Examples:
      mom-pipeline reproduce --quick
      mom-pipeline reproduce --sizes tafeng --data data/shop
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    plan = QUICK if quick else Plan(tuple(SIZES[name] for name in sizes or SIZES))
    logs = [_split(folder, plan) for folder in folders]
    path = settings.reports_dir / "reproduction.html"
    _require_writable(path.parent)
    with progress_bar("reading") as progress, scratch_folder(settings, "reproduce") as scratch:
        result = run_reproduction(plan, logs, scratch, progress)
    claims = claims_of(result)
    write_text(path, render_reproduction(result, claims))
    if as_json:
        print_json({"page": path, "claims": [asdict(claim) for claim in claims]})
    else:
        _show(claims, path, quick=quick)


def _require_writable(folder: Path) -> None:
    """Try to write to a folder at once, not after hours of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        said = f"the page cannot be written to {folder} ({error.strerror}); choose another place"
        raise click.UsageError(said) from error


def _split(folder: Path, plan: Plan) -> Split:
    settings = load_settings(folder)
    ingest_new(settings)
    imported = read_summary(settings)
    train_days = imported.train_days if imported else ()
    return log_split(Warehouse(settings), train_days, folder.resolve().name, plan)


def _show(claims: Sequence[Claim], path: Path, *, quick: bool) -> None:
    rows = [(claim.title, claim.figure, claim.ours, str(claim.verdict)) for claim in claims]
    print_table("The paper, claim by claim", ["claim", "paper", "here", "verdict"], rows)
    click.echo(f"{claims[0].title}: {claims[0].verdict}. {claims[0].why}")
    if quick:
        click.echo("Toy sizes: times and the order of methods mean little; leave out --quick.")
    click.echo(f"{path}, {path.stat().st_size / 1000:,.0f} kB")
