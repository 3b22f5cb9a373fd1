"""`mom-pipeline import`: a published dataset into daily log files."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from mom_pipeline.cli.terminal import byte_progress, json_option, print_json, print_table
from mom_pipeline.datasets import DATASETS, import_dataset
from mom_pipeline.datasets.options import ImportOptions
from mom_pipeline.settings import load_settings


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
    "--timestamp-format", default="iso", show_default=True,
    help="csv: iso, epoch_s, epoch_ms or a pattern such as '%d/%m/%Y %H:%M'.",
)  # fmt: skip
@click.option("--delimiter", default=",", show_default=True, help="csv: one of , ; |")
@click.option("--timezone", default="UTC", show_default=True, help="csv: zone of the times.")
@click.option(
    "--min-clicks", default=5, show_default=True, type=click.IntRange(min=1),
    help="yandex: clicks that keep a URL.",
)  # fmt: skip
@click.option(
    "--sample-users", default=1_000_000, show_default=True, type=click.IntRange(min=1),
    help="yandex: users drawn.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="yandex: seed of the sample of users.")
@click.option(
    "--first-day", default="2012-01-01", show_default=True, type=click.DateTime(["%Y-%m-%d"]),
    help="million-song, yandex: the date declared for their first day.",
)  # fmt: skip
@json_option
def import_(
    dataset: str, path: Path, as_json: bool, first_day: datetime, **choices: object
) -> None:
    """Turn a published DATASET at PATH into daily log files in data/logs.

    Import each dataset into its own data folder: MOM_DATA_DIR names it, and its settings
    (time zone, columns) are written with the logs. `mom-pipeline ingest` is the next step.

    \b
    tafeng         folder with D01 D02 D11 D12, or the merged CSV
    million-song   folder with *visible*.txt and *hidden*.txt triplets
    yandex         session log of the personalised web search challenge
    online-retail  UCI Online Retail as CSV (.gz)
    csv            any CSV with a header: --user, --item, --timestamp name its columns

    \b
    Example:
      MOM_DATA_DIR=data/retail mom-pipeline import online-retail online_retail.csv.gz
      MOM_DATA_DIR=data/retail mom-pipeline ingest
    """  # noqa: D301 - \b tells click to keep the lines
    options = ImportOptions(first_day=first_day.date(), **choices)  # type: ignore[arg-type]
    settings = load_settings()
    chosen = DATASETS[dataset](path, options)
    with byte_progress() as bar:
        total = sum(raw.path.stat().st_size for raw in chosen.files)
        task = bar.add_task(f"import {dataset}", total=total)
        summary = import_dataset(chosen, settings, lambda n: bar.update(task, advance=n))
    values = asdict(summary)
    if as_json:
        print_json(values)
        return
    for split in ("train_days", "test_days"):
        days = values.pop(split)
        if days:
            values[split.replace("_", " ")] = f"{len(days)} ({days[0]} to {days[-1]})"
    rows = [(name.replace("_", " "), _shown(value)) for name, value in values.items()]
    print_table(f"Imported into {settings.logs_dir}", ["", ""], rows)
    click.echo("Next: mom-pipeline ingest")


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
