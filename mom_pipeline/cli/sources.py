"""`mom-pipeline import` and `simulate`: daily log files from a dataset, or from the model."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import Progress

from mom_pipeline.cli.terminal import (
    DAY,
    DELIMITER,
    byte_progress,
    json_option,
    print_json,
    print_table,
    writes,
)
from mom_pipeline.core.files import write_bytes
from mom_pipeline.datasets import (
    DATASETS,
    Dataset,
    ImportOptions,
    ImportSummary,
    import_dataset,
)
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.ingest import IngestResult, ingest_file
from mom_pipeline.logs.logfiles import discover, log_file, printable
from mom_pipeline.logs.sample_logs import Delivery, SampleSettings, sample_deliveries
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_F = TypeVar("_F", bound=Callable[..., Any])


@click.command("import")
@click.argument("dataset", type=click.Choice(list(DATASETS)))
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--user", default="user", show_default=True, help="csv: column of the user.")
@click.option("--item", default="item", show_default=True, help="csv: column of the item.")
@click.option(
    "--timestamp", default="timestamp", show_default=True, help="csv: column of the time."
)
@click.option("--weight", default="", help="csv: column of the weight; none unless given.")
@click.option(
    "--timestamp-format",
    default="iso",
    show_default=True,
    help="csv: iso, epoch_s, epoch_ms or a pattern such as '%d/%m/%Y %H:%M'.",
)
@click.option(
    "--delimiter", default=",", show_default=True, help="csv: one of , ; | or tab.", type=DELIMITER
)
@click.option("--encoding", default="utf-8", show_default=True, help="csv: encoding of the text.")
@click.option("--item-name", default="", help="csv: column of the item's name.")
@click.option("--item-group", default="", help="csv: column of the item's group.")
@click.option("--timezone", default="UTC", show_default=True, help="csv: zone of the times.")
@click.option(
    "--min-clicks",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="yandex: clicks that keep a URL.",
)
@click.option(
    "--sample-users",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="yandex: users drawn.",
)
@click.option("--seed", default=0, show_default=True, help="yandex: seed of the sample of users.")
@click.option(
    "--first-day",
    default="2012-01-01",
    show_default=True,
    type=DAY,
    help="million-song, yandex: the date declared for their first day.",
)
@json_option
@writes
def import_(
    dataset: str, path: Path, as_json: bool, first_day: datetime, **choices: object
) -> None:
    """Turn a published DATASET at PATH into daily log files in data/logs.

    Import each dataset into its own data folder: MOM_DATA_DIR names it, and its settings
    (time zone, columns) are written with the logs. `mom-pipeline update` is the next step.

    \b
    tafeng         folder with D01 D02 D11 D12, or the merged CSV
    million-song   folder with *visible*.txt and *hidden*.txt triplets
    yandex         session log of the personalised web search challenge
    online-retail  UCI Online Retail as CSV (.gz), with its descriptions where they are there
    movietweetings folder with ratings.dat and movies.dat: titles and genres come along
    csv            any CSV with a header: --user, --item, --timestamp name its columns

    \b
    Example:
      MOM_DATA_DIR=data/retail mom-pipeline import online-retail online_retail.csv.gz
      MOM_DATA_DIR=data/retail mom-pipeline update
    """  # noqa: D301 - \b tells click to keep the lines
    options = ImportOptions(first_day=first_day.date(), **choices)  # type: ignore[arg-type]
    settings = load_settings()
    summary = import_with_progress(DATASETS[dataset](path, options), settings)
    values = asdict(summary)
    if as_json:
        print_json(values)
        return
    for name in values.pop("files_without_end"):
        click.secho(
            f"Taken: the last line of {printable(name)} has no line end; see whether the file is "
            "whole.",
            fg="yellow",
            err=True,
        )
    for split in ("train_days", "test_days"):
        days = values.pop(split)
        if days:
            values[split.replace("_", " ")] = f"{len(days)} ({days[0]} to {days[-1]})"
    rows = [(name.replace("_", " "), _shown(value)) for name, value in values.items()]
    print_table(f"Imported into {settings.logs_dir}", ["", ""], rows)
    click.echo("Next: mom-pipeline update")


def import_with_progress(dataset: Dataset, settings: Settings) -> ImportSummary:
    """Write the daily log files of a dataset, with a progress bar over its bytes."""
    with byte_progress() as bar:
        total = sum(raw.path.stat().st_size for raw in dataset.files)
        task = bar.add_task(f"import {dataset.name}", total=total)
        return import_dataset(dataset, settings, lambda n: bar.update(task, advance=n))


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _count_option(name: str, argument: str, default: int, words: str) -> Callable[[_F], _F]:
    kind = click.IntRange(min=1)
    return click.option(name, argument, default=default, show_default=True, type=kind, help=words)


@click.command()
@_count_option("--days", "n_days", 28, "Days of logs.")
@_count_option("--users", "n_users", 2500, "Users in all.")
@_count_option("--items", "n_items", 600, "Items in all.")
@_count_option("--components", "n_components", 8, "Latent components.")
@_count_option("--events", "events_per_day", 2500, "Mean events per day.")
@click.option("--first-day", default="2024-03-01", show_default=True, type=DAY)
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same bytes.")
@click.option("--ingest", "and_ingest", is_flag=True, help="Ingest each delivery as it arrives.")
@click.option("--overwrite", is_flag=True, help="Replace log files that are already there.")
@writes
def simulate(first_day: datetime, and_ingest: bool, overwrite: bool, **sizes: int) -> None:
    """Write days of sample logs to data/logs, from the model that MoM assumes.

    Users belong to one latent component each. New users and items appear, popularity drifts, some
    events come late, some lines are malformed, and some days are delivered twice or corrected:
    with --ingest, each delivery is ingested as it arrives.

    \b
    Example:
      MOM_DATA_DIR=data/sample mom-pipeline simulate --days 14 --ingest
    """  # noqa: D301 - \b tells click to keep the lines
    if sizes["n_components"] > sizes["n_items"]:
        most = f"--items {sizes['n_items']}"
        raise click.UsageError(f"--components {sizes['n_components']} must be at most {most}")
    sample = SampleSettings(first_day=first_day.date(), **sizes)
    settings = load_settings()
    if not overwrite:
        _require_empty(settings)
    statuses: Counter[str] = Counter()
    lines: dict[str, int] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulate", total=sample.n_days)
        for delivery in sample_deliveries(sample):
            bar.update(task, completed=(delivery.day - sample.first_day).days + 1)
            statuses["deliveries"] += 1
            lines[delivery.name] = delivery.n_lines
            result = _deliver(settings, delivery, and_ingest)
            if result is not None:
                statuses[result.status] += 1
    counts = {"files": len(lines), "lines": sum(lines.values()), **statuses}
    print_table(f"Sample logs in {settings.logs_dir}", ["", "n"], list(counts.items()))
    click.echo("Next: mom-pipeline logs" if and_ingest else "Next: mom-pipeline update")


def _deliver(settings: Settings, delivery: Delivery, and_ingest: bool) -> IngestResult | None:
    path = settings.logs_dir / delivery.name
    write_bytes(path, delivery.content)
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
