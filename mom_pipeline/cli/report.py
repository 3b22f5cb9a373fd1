"""`mom-pipeline report`: one page about the model of a day."""

import webbrowser
from datetime import datetime

import click

from mom_pipeline.cli.terminal import day_option
from mom_pipeline.report.page import newest_day, write_report
from mom_pipeline.settings import load_settings


@click.command()
@day_option
@click.option("open_it", "--open", is_flag=True, help="Open the page in the browser.")
def report(day: datetime | None, open_it: bool) -> None:
    """Write an HTML page about the model of a day, by default the newest, into `reports`.

    The page is one file without outside resources, for a screen, a phone or paper. It begins with
    a sentence, five people and their lists, coverage and what changed; below it stand the
    backtest and the comparison with other methods, the components and how stable they are,
    drift, Theorem 1, the quality of the data, settings, versions and times.

    \b
    Examples:
      mom-pipeline report --open
      mom-pipeline report --day 2024-03-28
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    path, _ = write_report(settings, day.date() if day else newest_day(settings))
    click.echo(f"{path}, {path.stat().st_size / 1000:,.0f} kB")
    if open_it and not webbrowser.open(path.resolve().as_uri()):
        raise click.ClickException(f"no browser could be started; open {path} yourself")
