"""`mom-pipeline backfill`: a range of days in one run."""

from datetime import datetime

import click

from mom_pipeline.cli.results import print_results
from mom_pipeline.cli.run import run_days
from mom_pipeline.settings import load_settings

_DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option("--from", "first", type=_DAY, required=True, help="First day, such as 2024-03-01.")
@click.option("--to", "last", type=_DAY, required=True, help="Last day.")
@click.option("--full", is_flag=True, help="Compute every day from all users.")
def backfill(first: datetime, last: datetime, full: bool) -> None:
    """Materialize every asset of a range of days, in one run.

    A day is computed from its changed users where the day before can be built upon.

    \b
    Example:
      mom-pipeline backfill --from 2024-03-01 --to 2024-03-28
    """  # noqa: D301 - \b tells click to keep the lines
    if first > last:
        raise click.UsageError(f"--from {first:%Y-%m-%d} lies after --to {last:%Y-%m-%d}")
    settings = load_settings()
    run_days(settings, first.date(), last.date(), full=full)
    print_results(settings, last.date())
