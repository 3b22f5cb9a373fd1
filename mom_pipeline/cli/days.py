"""`mom-pipeline accept` and `drop`: a person's decision on a delivery day."""

from datetime import datetime

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.cli.terminal import DAY
from mom_pipeline.logs.decisions import accept_day, drop_day
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

_NEXT = "Next: `mom-pipeline update` computes the days from there on."


@click.command()
@click.argument("day", type=DAY, metavar="YYYY-MM-DD")
def accept(day: datetime) -> None:
    """Accept a day that the gate excluded, or that was dropped.

    Its rows count from then on, as long as its files stay as they are. The days from there on
    are computed again by `mom-pipeline update`, or by the sensor and the nightly schedule.

    \b
    Example:
      mom-pipeline accept 2024-03-15
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    with writing_to(settings, "mom-pipeline accept"):
        reason = accept_day(Warehouse(settings), day.date())
    click.echo(f"{day.date()} is accepted; it was {reason}.\n{_NEXT}")


@click.command()
@click.argument("day", type=DAY, metavar="YYYY-MM-DD")
def drop(day: datetime) -> None:
    """Remove the rows of a day: one that the gate excluded, or whose file is gone.

    The files in the logs folder stay. They are not ingested again until they change, or until
    `mom-pipeline accept DAY`.

    \b
    Example:
      mom-pipeline drop 2024-03-15
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    with writing_to(settings, "mom-pipeline drop"):
        rows = drop_day(Warehouse(settings), day.date())
    click.echo(f"{day.date()} is dropped: {rows:,} rows removed.\n{_NEXT}")
