"""`mom-pipeline accept` and `drop`: a person's decision on a delivery day."""

from datetime import datetime

import click

from mom_pipeline.artifacts.writer import writing_to
from mom_pipeline.cli.terminal import DAY, json_option, print_json
from mom_pipeline.logs.admission import accept_day, drop_day
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

_NEXT = "Next: `mom-pipeline update` computes the days from there on."


@click.command()
@click.argument("day", type=DAY, metavar="YYYY-MM-DD")
@json_option
def accept(day: datetime, as_json: bool) -> None:
    """Take in a day that the gate kept out, or that was dropped.

    Its rows count from then on, as long as its files stay as they are. The days from there on
    are computed again by `mom-pipeline update`, or by the sensor and the nightly schedule.

    \b
    Example:
      mom-pipeline accept 2024-03-15
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    with writing_to(settings, "mom-pipeline accept"):
        reason = accept_day(Warehouse(settings), day.date())
    if as_json:
        print_json({"day": day.date(), "accepted": True, "was": reason})
    else:
        click.echo(f"{day.date()} is taken in; it was {reason}.\n{_NEXT}")


@click.command()
@click.argument("day", type=DAY, metavar="YYYY-MM-DD")
@json_option
def drop(day: datetime, as_json: bool) -> None:
    """Remove the rows of a day: one that the gate kept out, or whose file is gone.

    The files in the logs folder stay. They are not taken again until they change, or until
    `mom-pipeline accept DAY`.

    \b
    Example:
      mom-pipeline drop 2024-03-15
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    with writing_to(settings, "mom-pipeline drop"):
        rows = drop_day(Warehouse(settings), day.date())
    if as_json:
        print_json({"day": day.date(), "dropped": True, "rows": rows})
    else:
        click.echo(f"{day.date()} is dropped: {rows:,} rows removed.\n{_NEXT}")
