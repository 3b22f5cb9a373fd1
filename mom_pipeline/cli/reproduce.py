"""`mom-pipeline reproduce`: the paper, claim by claim, on this machine."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.bench.claims import Claim, claims_of
from mom_pipeline.bench.paper import SIZES
from mom_pipeline.bench.reproduction import (
    QUICK,
    Plan,
    log_split,
    render_reproduction,
    run_reproduction,
)
from mom_pipeline.cli.bench import several
from mom_pipeline.cli.compare import require_writable
from mom_pipeline.cli.run import ingest_new
from mom_pipeline.cli.terminal import json_option, print_json, print_table, step_progress
from mom_pipeline.comparison.split import Split
from mom_pipeline.core.files import write_text
from mom_pipeline.datasets.importing import read_summary
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

PAGE = "reproduction.html"


@click.command()
@click.option("--quick", is_flag=True, help="Toy sizes, in less than a minute.")
@click.option(
    "folders",
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Data folder with logs, for curves on them; may be given again.",
)
@click.option("--sizes", **several(tuple(SIZES)), help="Data sets of the paper, comma-separated.")
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
    path = settings.reports_dir / PAGE
    require_writable(path, "the page")
    with step_progress("reading") as progress, scratch_folder(settings, "reproduce") as scratch:
        result = run_reproduction(plan, logs, scratch, progress)
    claims = claims_of(result)
    write_text(path, render_reproduction(result, claims))
    if as_json:
        print_json({"page": path, "claims": [asdict(claim) for claim in claims]})
    else:
        _show(claims, path, quick=quick)


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
