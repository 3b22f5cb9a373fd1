"""`mom-pipeline report`: one page about the model in use as of a day."""

from datetime import datetime

import click

from mom_pipeline.cli.terminal import day_option
from mom_pipeline.report.page import newest_day, write_report
from mom_pipeline.settings import load_settings


@click.command()
@day_option
def report(day: datetime | None) -> None:
    """Write an HTML page about the model in use as of a day, by default the newest.

    The page is one file in `reports`, without outside resources, for a screen, a phone or paper. It
    begins with a sentence, five people and their lists, coverage and how the model came in use;
    below it stand the backtest and the comparison with other methods, the components and how stable
    they are, drift, Theorem 1, the quality of the data, settings and versions.
    """
    settings = load_settings()
    written = write_report(settings, day.date() if day else newest_day(settings))
    if written.problem:
        click.echo(f"Nothing to show: {written.problem}", err=True)
    click.echo(f"{written.path.resolve().as_uri()}, {written.path.stat().st_size / 1000:,.0f} kB")
