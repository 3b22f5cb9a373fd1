"""`mom-pipeline import` and `simulate`: daily log files from a file, a dataset, or the model."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from mom_pipeline.catalogue import Catalogue
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
from mom_pipeline.datasets.guessing import Guess, guess_file, own_file
from mom_pipeline.datasets.importing import Dataset, ImportSummary, import_dataset
from mom_pipeline.datasets.published import DATASETS
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import discover, printable
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries, sample_records
from mom_pipeline.settings import Settings, load_settings

_F = TypeVar("_F", bound=Callable[..., Any])
_OPTIONS = {
    "--user": "Column of the user.",
    "--item": "Column of the item.",
    "--timestamp": "Column of the time.",
    "--weight": 'Column of the quantity; "" for none.',
    "--item-name": 'Column of the item\'s name; "" for none.',
    "--item-group": 'Column of the item\'s group; "" for none.',
    "--timestamp-format": "iso, epoch_s, epoch_ms or a pattern like '%d.%m.%Y %H:%M'.",
    "--timezone": "Zone of the times.  [default: UTC]",
    "--delimiter": "One of , ; | or tab.",
    "--encoding": "Encoding of the text, such as latin-1.",
}


def file_options(command: _F) -> _F:
    """Add the options that correct the guess of how a file is written."""
    for name, words in reversed(_OPTIONS.items()):
        kind = DELIMITER if name == "--delimiter" else None
        command = click.option(name, type=kind, help=words)(command)
    return command


def guessed(path: Path, choices: dict[str, Any]) -> Guess:
    """Guess how a file is written, but for the options that were given."""
    return guess_file(path, {name: v for name, v in choices.items() if v is not None})


@click.command("import")
@click.argument("dataset", type=click.Choice([*DATASETS, "csv"]))
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@file_options
@json_option
@writes
def import_(dataset: str, path: Path, as_json: bool, **choices: Any) -> None:
    """Turn a DATASET at PATH into daily log files in data/logs.

    Import each dataset into its own data folder: MOM_DATA_DIR names it, and its settings
    (time zone, columns) are written with the logs. `mom-pipeline update` is the next step. An
    import that was interrupted begins again when it is repeated.

    \b
    csv            any CSV, TSV, JSON lines or Parquet file: the options below correct
                   what is guessed of its columns
    tafeng         folder with D01 D02 D11 D12, or the merged CSV
    million-song   folder with *visible*.txt and *hidden*.txt triplets
    yandex         session log of the personalised web search challenge
    online-retail  UCI Online Retail as CSV (.gz), with its descriptions where they are there
    movietweetings folder with ratings.dat and movies.dat: titles and genres come along

    \b
    Example:
      MOM_DATA_DIR=data/retail mom-pipeline import online-retail online_retail.csv.gz
      MOM_DATA_DIR=data/retail mom-pipeline update
    """  # noqa: D301 - \b tells click to keep the lines
    chosen = own_file(guessed(path, choices)) if dataset == "csv" else DATASETS[dataset](path)
    settings = load_settings()
    values = asdict(import_with_progress(chosen, settings))
    if as_json:
        print_json(values)
        return
    for name in values.pop("files_without_end"):
        click.secho(
            f"Imported: the last line of {printable(name)} has no line end; see whether the file "
            "is whole.",
            fg="yellow",
            err=True,
        )
    for split in ("train_days", "test_days"):
        days = values.pop(split)
        if days:
            values[split] = f"{len(days)} ({days[0]} to {days[-1]})"
    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value))
        for name, value in values.items()
    ]
    print_table(f"Imported into {settings.logs_dir}", ["", ""], rows)
    click.echo("Next: mom-pipeline update")


def import_with_progress(dataset: Dataset, settings: Settings) -> ImportSummary:
    """Write the daily log files of a dataset, with a progress bar over its bytes."""
    with byte_progress() as bar:
        total = sum(raw.path.stat().st_size for raw in dataset.files)
        task = bar.add_task(f"import {dataset.name}", total=total)
        return import_dataset(dataset, settings, lambda n: bar.update(task, advance=n))


def _count_option(name: str, argument: str, default: int, words: str) -> Callable[[_F], _F]:
    kind = click.IntRange(min=1)
    return click.option(name, argument, default=default, show_default=True, type=kind, help=words)


@click.command()
@_count_option("--days", "n_days", 28, "Days of logs.")
@_count_option("--users", "n_users", 2500, "Users in all.")
@_count_option("--items", "n_items", 600, "Items in all.")
@_count_option("--components", "n_components", 8, "Latent components.")
@_count_option("--events", "events_per_day", 2500, "Mean events per day.")
@click.option("--first-day", type=DAY, help="By default such that the last one is yesterday.")
@writes
def simulate(first_day: datetime | None, **sizes: int) -> None:
    """Write days of logs of an invented record shop, from the model that MoM assumes.

    Users belong to one latent component each, a genre. New users and records appear, popularity
    drifts, some events come late, some lines are malformed. `items.csv` names the records.

    \b
    Example:
      MOM_DATA_DIR=data/sample mom-pipeline simulate --days 14
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    there = discover(settings.logs_dir).files
    if there:
        raise LogFileError(
            f"{settings.logs_dir} already holds {len(there)} log files; choose another data folder "
            "(MOM_DATA_DIR=data/sample mom-pipeline simulate), or remove them"
        )
    write_sample(settings, first_day.date() if first_day else None, **sizes)
    click.echo(f"{sizes['n_days']} days of sample logs in {settings.logs_dir}.")
    click.echo("Next: mom-pipeline update")


def write_sample(settings: Settings, first_day: date | None = None, **sizes: Any) -> None:
    """Write the sample's logs and its catalogue; by default its last day is yesterday."""
    sample = SampleSettings(**sizes)
    today = datetime.now(settings.logs.zone).date()
    sample = replace(sample, first_day=first_day or today - timedelta(days=sample.n_days))
    catalogue = Catalogue.open(settings.data_dir).with_missing(sample_records(sample))
    catalogue.save(settings.data_dir)
    for delivery in sample_deliveries(sample):
        write_bytes(settings.logs_dir / delivery.name, delivery.content)
