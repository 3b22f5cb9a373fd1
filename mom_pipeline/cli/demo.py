"""`mom-pipeline demo`: the whole pipeline over the sample logs."""

import time

import click

from mom_pipeline.artifacts.atomic import writing
from mom_pipeline.cli.results import print_results, results
from mom_pipeline.cli.run import run_days
from mom_pipeline.cli.terminal import json_option, print_json
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.settings import Settings, load_settings


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Run every asset over all days of the log files, and show what came out.

    Takes the logs of the data folder, or writes sample logs when there are none. The table
    compares the model with popularity on what users took in the days after it.
    """
    settings = load_settings()
    if not discover(settings.logs_dir).files:
        _write_sample(settings)
    days = [file.day for file in discover(settings.logs_dir).files]
    begin = time.perf_counter()
    run_days(settings, min(days), max(days))
    seconds = time.perf_counter() - begin
    if as_json:
        print_json({**results(settings, max(days)), "seconds": seconds})
        return
    click.echo(f"{len(set(days))} days, {min(days)} to {max(days)}, in {seconds:.0f} s.")
    print_results(settings, max(days))
    click.echo(
        "Next: `mom-pipeline ui` opens the graph with these days in the browser;\n"
        "`mom-pipeline status` lists them. Put a file of a later day into "
        f"{settings.logs_dir}, and `mom-pipeline update` takes it in."
    )


def _write_sample(settings: Settings) -> None:
    for delivery in sample_deliveries(SampleSettings()):
        with writing(settings.logs_dir / delivery.name) as out:
            out.write(delivery.content)
