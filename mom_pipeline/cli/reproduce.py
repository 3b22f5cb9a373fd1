"""`mom-pipeline reproduce`: the paper, claim by claim, on this machine."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path

import click

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.bench.claims import Claim, claims_of
from mom_pipeline.bench.paper import SIZES, PaperSize
from mom_pipeline.bench.reproduction import Log, Plan, quick_plan, run_reproduction
from mom_pipeline.bench.reproduction_page import render_reproduction
from mom_pipeline.cli.compare import require_writable
from mom_pipeline.cli.terminal import DAY, json_option, print_json, print_table, step_progress
from mom_pipeline.core.files import write_text
from mom_pipeline.datasets import read_summary
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
    help="Data folder with ingested logs, for curves on them; may be given again.",
)
@click.option(
    "--train-until",
    type=DAY,
    metavar="YYYY-MM-DD",
    help="Last training day of --data.  [default: the paper's split of its own data sets, three "
    "quarters of the days of others]",
)
@click.option(
    "--sizes",
    default=",".join(SIZES),
    show_default=True,
    help="Data sets of the paper whose sizes are taken, comma-separated.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Where to write the page.  [default: {PAGE} among the reports of the data folder]",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@json_option
def reproduce(
    quick: bool,
    folders: tuple[Path, ...],
    train_until: datetime | None,
    sizes: str,
    page: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Go through the paper claim by claim: what it says, its figure, ours, the verdict.

    Measured are the error of O against a known truth, Tables 1 and 2 and curves like Figure 2,
    on simulated data of the paper's sizes and on the logs of --data. All sizes take hours;
    every method has a process, one core for Table 2, 8 GB and an hour of its own.

    \b
    Examples:
      mom-pipeline reproduce --quick
      mom-pipeline reproduce --sizes tafeng --data data/shop --train-until 2011-08-31
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    plan = quick_plan(seed) if quick else Plan(_sizes(sizes), seed=seed)
    last_day = None if train_until is None else train_until.date()
    logs = [_log(folder, last_day) for folder in folders]
    path = page or settings.reports_dir / PAGE
    require_writable(path, "--page")
    with step_progress("reading") as progress, scratch_folder(settings, "reproduce") as scratch:
        result = run_reproduction(plan, logs, scratch, progress)
    claims = claims_of(result)
    write_text(path, render_reproduction(result, claims))
    if as_json:
        print_json({"page": path, "claims": [asdict(claim) for claim in claims]})
    else:
        _show(claims, path, quick=quick)


def _log(folder: Path, train_until: date | None) -> Log:
    settings = load_settings(folder)
    imported = read_summary(settings)
    train_days = imported.train_days if imported else ()
    return Log(folder.resolve().name, Warehouse(settings), train_until, train_days)


def _sizes(names: str) -> tuple[PaperSize, ...]:
    given = [name.strip() for name in names.split(",")]
    unknown = [name for name in given if name not in SIZES]
    if unknown:
        raise click.BadParameter(
            f"unknown: {', '.join(unknown)}; the known ones are {', '.join(SIZES)}",
            param_hint="--sizes",
        )
    return tuple(SIZES[name] for name in given)


def _show(claims: Sequence[Claim], path: Path, *, quick: bool) -> None:
    rows = [(claim.title, claim.figure, claim.ours, str(claim.verdict)) for claim in claims]
    print_table("The paper, claim by claim", ["claim", "paper", "here", "verdict"], rows)
    click.echo(f"{claims[0].title}: {claims[0].verdict}. {claims[0].why}")
    if quick:
        click.echo("Toy sizes: times and the order of methods mean little; leave out --quick.")
    click.echo(f"{path}, {path.stat().st_size / 1000:,.0f} kB")
