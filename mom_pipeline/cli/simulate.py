"""`mom-pipeline simulate`: sample logs from the generative model."""

from collections import Counter
from datetime import datetime

import click
from rich.console import Console
from rich.progress import Progress

from mom_pipeline.cli.terminal import print_table
from mom_pipeline.core.files import writing
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.ingest import IngestOutcome, ingest_file
from mom_pipeline.logs.logfiles import discover, log_file
from mom_pipeline.logs.sample_logs import Delivery, SampleSettings, sample_deliveries
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse


@click.command()
@click.option("--days", default=28, show_default=True, help="Days of logs.")
@click.option("--users", default=2500, show_default=True, help="Users in all.")
@click.option("--items", default=600, show_default=True, help="Items in all.")
@click.option("--components", default=8, show_default=True, help="Latent classes.")
@click.option("--events", default=2500, show_default=True, help="Mean events per day.")
@click.option(
    "--first-day", default="2024-03-01", show_default=True, type=click.DateTime(["%Y-%m-%d"])
)
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same bytes.")
@click.option("--ingest", "and_ingest", is_flag=True, help="Ingest each delivery as it arrives.")
@click.option("--overwrite", is_flag=True, help="Replace log files that are already there.")
def simulate(
    days: int, users: int, items: int, components: int, events: int,
    first_day: datetime, seed: int, and_ingest: bool, overwrite: bool,
) -> None:  # fmt: skip
    """Write days of sample logs to data/logs, from the model that MoM assumes.

    Users belong to one latent class each. New users and items appear, popularity drifts, some
    events come late, some lines are malformed, and some days are delivered twice or corrected:
    with --ingest, each delivery is ingested as it arrives.

    \b
    Example:
      MOM_DATA_DIR=data/sample mom-pipeline simulate --days 14 --ingest
    """  # noqa: D301 - \b tells click to keep the lines
    sample = SampleSettings(days, users, items, components, events, first_day.date(), seed)
    settings = load_settings()
    if not overwrite:
        _require_empty(settings)
    statuses: Counter[str] = Counter()
    lines: dict[str, int] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulate", total=days)
        for delivery in sample_deliveries(sample):
            bar.update(task, completed=(delivery.day - sample.first_day).days + 1)
            statuses["deliveries"] += 1
            lines[delivery.name] = delivery.n_lines
            outcome = _deliver(settings, delivery, and_ingest)
            if outcome is not None:
                statuses[outcome.status] += 1
    counts = {"files": len(lines), "lines": sum(lines.values()), **statuses}
    print_table(f"Sample logs in {settings.logs_dir}", ["", "n"], list(counts.items()))
    click.echo("Next: mom-pipeline logs" if and_ingest else "Next: mom-pipeline ingest")


def _deliver(settings: Settings, delivery: Delivery, and_ingest: bool) -> IngestOutcome | None:
    path = settings.logs_dir / delivery.name
    with writing(path) as out:
        out.write(delivery.content)
    if not and_ingest:
        return None
    return ingest_file(Warehouse(settings), log_file(path, settings.logs_dir))


def _require_empty(settings: Settings) -> None:
    files = discover(settings.logs_dir).files
    if files:
        raise LogFileError(
            f"{settings.logs_dir} already holds {len(files)} log files; choose another data folder "
            "(MOM_DATA_DIR=data/sample mom-pipeline simulate), or replace them with --overwrite"
        )
