"""`mom-pipeline update`: what the log files ask for."""

from datetime import datetime

import click

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.freshness import freshness
from mom_pipeline.cli.results import print_results
from mom_pipeline.cli.run import run_days
from mom_pipeline.cli.terminal import day_option
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse


@click.command()
@day_option
def update(day: datetime | None) -> None:
    """Bring the pipeline up to date: all days from the first that is missing or stale.

    With --day, that day alone.
    """
    settings = load_settings()
    if day is not None:
        first = last = day.date()
    else:
        found = freshness(Warehouse(settings), DayState(settings))
        behind = [entry.day for entry in found if entry.status in ("missing", "stale")]
        if not behind:
            click.echo(f"All {len(found)} days are fresh.")
            return
        first, last = behind[0], found[-1].day
    run_days(settings, first, last)
    click.echo(f"Materialized {first}" + ("" if first == last else f" to {last}") + ".")
    print_results(settings, last)
