"""`mom-pipeline start`, `import` and `simulate`: daily log files from a file, a dataset or a model.

`start` goes on to recommendations.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.run import judge_import, print_results, run_days
from mom_pipeline.cli.terminal import (
    A_DAY,
    json_option,
    print_json,
    print_table,
    progress_bar,
    warn,
    writes,
)
from mom_pipeline.core.files import write_bytes
from mom_pipeline.datasets.containers import SourcePart, plain_files
from mom_pipeline.datasets.guessing import Guess, guess_files, own_files
from mom_pipeline.datasets.importing import (
    SUMMARY_FILE,
    Dataset,
    ImportSummary,
    begin_again,
    day_of_import,
    import_dataset,
    is_imported_otherwise,
    n_other_logs,
)
from mom_pipeline.datasets.published import DATASETS
from mom_pipeline.errors import DatasetError, LogFileError
from mom_pipeline.logs.gate import excluded_days
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.logs.logfiles import discover, printable
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries, sample_records
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import day_statuses
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import DATA_DIR_VARIABLE, Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.lists import repeat_share

_F = TypeVar("_F", bound=Callable[..., Any])
_Guessing = Callable[..., Guess]
_OPTIONS = {
    "--user": "Column of the user.",
    "--item": "Column of the item.",
    "--timestamp": 'Column of the time; "" for none: all of one day.',
    "--clock": 'Column of the time of the day, beside one of dates; "" for none.',
    "--weight": 'Column of the quantity, below 0 for a return; "" for none.',
    "--event": 'Column of the event\'s type, such as view or purchase; "" for none.',
    "--event-weights": "How much a type counts: view=1,cart=3,purchase=5,return=-1; 0 leaves out.",
    "--item-name": 'Column of the item\'s name; "" for none.',
    "--item-group": 'Column of the item\'s group; "" for none.',
    "--timestamp-format": "iso, epoch_s, epoch_ms, epoch_us, excel or '%d.%m.%Y %H:%M'.",
    "--timezone": "Zone of the times.  [default: UTC]",
    "--decimal": "Mark before the decimals: , or .",
    "--delimiter": "One of , ; | :: or tab.",
    "--encoding": "Encoding of the text, such as latin-1.",
}
_PART = "Table of a database, or a SELECT in its place; or sheet of an Excel file."
_SELECT = re.compile(r".*\bselect\b|\s*(from|values)\b", re.IGNORECASE | re.DOTALL)
# The option of a choice, as the guess calls it.
_LABELS = {"time": "--timestamp", "quantity": "--weight", "type of the event": "--event"}
_LABELS |= {"name of the item": "--item-name", "group of the item": "--item-group"}
_ROWS = 5
# A log of repeats, such as of a grocery.
_OFTEN_AGAIN = 0.2
# Excluded days at the end that are computed to get at a usual one.
_LONGEST_SEARCH = timedelta(days=28)


def _file_options(command: _F) -> _F:
    """Add the options that correct the guess of how a file is written."""
    command = click.option("--table", "--query", "--sheet", "part", help=_PART)(command)
    for name, words in reversed(_OPTIONS.items()):
        command = click.option(name, help=words)(command)
    return command


@contextmanager
def _opened(source: str, choices: dict[str, Any]) -> Iterator[_Guessing]:
    """Bring the rows of a source into plain files; yields how they are read, corrected or not."""
    given = {name: value for name, value in choices.items() if value is not None}
    part = given.pop("part", "")
    query = part if _SELECT.match(part) else ""
    with TemporaryDirectory(prefix="mom-pipeline-") as folder:
        paths = plain_files(source, SourcePart(part, query, part), Path(folder))
        yield lambda **corrected: guess_files(paths, _values({**given, **corrected}))


def _values(typed: dict[str, str]) -> dict[str, Any]:
    """Options, or an answer, as a guess takes them."""
    values: dict[str, Any] = dict(typed)
    if values.get("delimiter") in ("tab", "\\t"):  # shells make it hard to type one
        values["delimiter"] = "\t"
    if "event_weights" in values:
        values["event_weights"] = _weights(values["event_weights"])
    return values


def _weights(text: str) -> dict[str, float]:
    try:
        pairs = (pair.rsplit("=", 1) for pair in text.split(","))
        return {event.strip(): float(weight) for event, weight in pairs}
    except ValueError:
        raise DatasetError(
            f"--event-weights must be like view=1,cart=3,purchase=5, found {text!r}"
        ) from None


@click.command()
@click.argument("source")
@_file_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def start(source: str, yes: bool, **choices: Any) -> None:
    """Recommend from SOURCE: rows of who took what, wherever they lie.

    A file (CSV, TSV, JSON, Parquet, Excel, SQLite, DuckDB; plain, packed or in an archive), a
    folder or pattern of files, - for standard input, postgres://… or an address that fsspec reads.

    How it is written is guessed and shown with some rows; options, or the answer to the one
    question, correct the guess. It is imported into a data folder of its own (MOM_DATA_DIR, by
    default `data/NAME`), the model of the newest day is computed from all rows and put in use, and
    some lists are shown. The older days add history and evaluation; `update` computes them. Typed
    again it goes on, or, with other options, begins again.

    \b
    Examples:
      mom-pipeline start orders.csv
      mom-pipeline start orders.xlsx --sheet 2024 --user Kunde --item-name Bezeichnung --yes
      mom-pipeline start postgres://me@db/shop --query 'SELECT user_id, sku, at FROM orders'
    """  # noqa: D301 - \b tells click to keep the lines
    begin, named = time.perf_counter(), os.environ.get(DATA_DIR_VARIABLE)
    folder = named or str(own_folder(source))
    with _opened(source, choices) as guessing:
        guess = _agreed(guessing, yes=yes)
        if guess is None:
            click.echo("Nothing was written. `mom-pipeline start --help` lists the options.")
            return
        os.environ[DATA_DIR_VARIABLE] = folder
        settings = load_settings()
        with writing_to(settings, "mom-pipeline start", waiting=warn):
            dataset = own_files(guess, day_of_import(settings))
            if is_imported_otherwise(dataset, settings):
                question = f"{folder} was made with other options"
                if others := n_other_logs(settings):
                    question += f" and holds {others} log files of other imports, which would go"
                if yes and others:
                    raise DatasetError(f"{question}; name another folder with {DATA_DIR_VARIABLE}")
                if not (yes or click.confirm(f"{question}; begin again?")):
                    click.echo("Nothing was written.")
                    return
                begin_again(dataset, settings)
            _print_imported(_import(dataset, load_settings()), folder)
            settings = load_settings()  # the import has written some
            newest = _first_model(settings)
            ModelRegistry(settings.models_dir).champion()  # else it says why there is none
            print_results(settings, newest)
            click.echo(f"First lists after {time.perf_counter() - begin:.0f} s.")
    command = "mom-pipeline" if named else f"{DATA_DIR_VARIABLE}={folder} mom-pipeline"
    click.echo(f"Next:\n  {command} recommend USER  # the list of one of your users")
    if older := sum(entry.status == "missing" for entry in day_statuses(Days(settings))):
        click.echo(f"  {command} update  # the {older} older days: history and evaluation")
    else:
        click.echo(f"  {command} report  # a page about the model")


def _agreed(guessing: _Guessing, *, yes: bool) -> Guess | None:
    """Show the guess and ask once for all of it; None where a person wants nothing written."""
    corrected: dict[str, str] = {}
    while True:
        guess = guessing(**corrected)
        _show(guess)
        if yes:
            return guess
        try:
            said = click.prompt(
                "Is that right? [Y, n, or what is: user=COLUMN, item=COLUMN …]",
                default="y",
                show_default=False,
            )
        except click.Abort:
            raise click.ClickException("nobody answered; --yes takes the guess as it is") from None
        if said.strip().casefold() in ("y", "yes", "j", "ja"):
            return guess
        if "=" not in said:
            return None
        for word, _, value in (pair.partition("=") for pair in said.split(",")):
            option = _LABELS.get(word.strip(), f"--{word.strip().replace('_', '-')}")
            if option in _OPTIONS:
                corrected[option[2:].replace("-", "_")] = value.strip()
            else:
                known = ", ".join(("user", "item", *_LABELS))
                warn(f"{word.strip()!r} cannot be corrected here; {known} can.")


def own_folder(source: str) -> Path:
    """A data folder named after a source, without what shells would read.

    Never a part of the data folder `data`, such as its logs.
    """
    last = source.partition("?")[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^\w-]+", "-", last.split(".")[0]).strip("-")
    folder = Path("data") / (name or "own")
    # A start that was interrupted before the summary has left its lock there.
    is_own = any((folder / name).exists() for name in (SUMMARY_FILE, ".writer"))
    is_other = folder.exists() and not is_own
    return folder.with_name(f"own-{folder.name}") if is_other else folder


def _show(guess: Guess) -> None:
    """Print the guess, and some rows as it reads them."""
    options, file = guess.options, guess.files[0]
    written = {"csv": f"text, delimiter {file.delimiter!r}", "jsonl": "JSON lines"}
    times = " and ".join(filter(None, (options.timestamp, options.clock)))
    times += f", as {options.timestamp_format}, in {options.timezone}"
    quantity = f"{options.weight}, decimals after {options.decimal!r}"
    lines = {
        "format": written.get(file.file_format, "Parquet"),
        "encoding": file.encoding,
        "files": str(len(guess.files)),
        "user": options.user,
        "item": options.item,
        "time": times if options.timestamp else "none: all rows are of one day",
        "quantity": quantity if options.weight else "none: every line counts once",
        "type of the event": options.event or "none",
        "name of the item": options.item_name or "none",
        "group of the item": options.item_group or "none",
    }
    if file.file_format == "parquet":
        del lines["encoding"]
    for role in guess.doubtful:
        lines[role] += "  (by its values alone: look whether it is)"
    print_table(f"How {file.path.name} is read", ["", "column or choice"], lines.items())
    for note in guess.notes:
        warn(f"Note: {note}.")
    columns = ["user", "item", "time", "quantity", "name"]
    print_table("The first rows", columns, guess.parsed_rows(_ROWS))


def _print_imported(done: ImportSummary, folder: str | Path) -> None:
    """Print what was read, taken and set aside, by reason with the first lines of each."""
    period = f"{done.days} days, {done.first_day} to {done.last_day}"
    click.echo(
        f"Imported {done.rows:,} rows of {period}, into {folder}: {done.taken:,} taken, "
        f"{done.rows - done.taken:,} set aside."
    )
    if done.returns:
        click.echo(f"{done.returns:,} of them are returns, which take earlier rows away.")
    if done.types:
        types = [(one.event, one.n, f"{one.rate:.1%}", f"{one.weight:g}") for one in done.types]
        columns = ["event type", "rows", "then followed by the rarest type", "counts"]
        print_table("Types, in logs.event_weights (--event-weights sets them)", columns, types)
        if unused := ", ".join(one.event for one in done.types if not one.weight):
            warn(f"Not counted: {unused}; --event-weights {unused.split(',')[0]}=1 counts it.")
    if done.rest:
        rows = [(part.reason, part.n, "\n".join(part.examples)) for part in done.rest]
        print_table("Set aside", ["reason", "rows", "such as"], rows)
        click.echo("They stay in the log files with their reasons; `mom-pipeline logs` lists them.")


def _first_model(settings: Settings) -> date:
    """Put the model of the newest usual day in use; return the newest day.

    A day that is excluded, such as one that the file cuts short, has no model in use.
    """
    days = day_statuses(Days(settings))
    last = next(entry for entry in reversed(days) if entry.behind or entry.status != "excluded")
    newest = last.day
    if not last.behind:  # of an earlier start
        return newest
    judge_import(settings)
    warehouse = Warehouse(settings)
    with warehouse.reading() as connection:
        excluded = excluded_days(connection)
        for day, reason in excluded.items():
            warn(f"Excluded: {day}: {reason}. `mom-pipeline accept {day}` takes it in.")
        whole = [day for day in delivery_days(connection) if day not in excluded]
        again = repeat_share(connection)
    if again >= _OFTEN_AGAIN and settings.serving.exclude_seen:
        click.echo(
            f"{again:.0%} of what people took they had taken on an earlier day. Lists hold new "
            "items; `exclude_seen = false` under [serving] in pipeline.toml lets them hold all."
        )
    first = max(whole[-1] if whole else newest, newest - _LONGEST_SEARCH)
    run_days(settings, first, newest)
    return newest


@click.command("import")
@click.argument("dataset", type=click.Choice([*DATASETS, "csv"]))
@click.argument("path")
@_file_options
@json_option
@writes
def import_(settings: Settings, /, dataset: str, path: str, as_json: bool, **choices: Any) -> None:
    """Turn a DATASET at PATH into daily log files in data/logs.

    Import each dataset into its own data folder: MOM_DATA_DIR names it, and its settings
    (time zone, columns) are written with the logs. `mom-pipeline update` is the next step. An
    import that was interrupted begins again when it is repeated.

    \b
    csv            rows of your own, of any source that `start` reads: the options below
                   correct what is guessed of them
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
    if dataset == "csv":
        with _opened(path, choices) as guessing:
            done = _import(own_files(guessing(), day_of_import(settings)), settings)
    else:
        done = _import(DATASETS[dataset](Path(path)), settings)
    if as_json:
        print_json(asdict(done))
        return
    for name in map(printable, done.files_without_end):
        warn(f"Imported: the last line of {name} has no line end; see whether the file is whole.")
    _print_imported(done, settings.logs_dir)
    if done.lines_filtered:
        click.echo(f"{done.lines_filtered:,} lines were left out: {done.rules}.")
    for split in ("train_days", "test_days"):
        if days := getattr(done, split):
            click.echo(f"{split.replace('_', ' ')}: {len(days)} ({days[0]} to {days[-1]})")
    click.echo("Next: mom-pipeline update")


def _import(dataset: Dataset, settings: Settings) -> ImportSummary:
    """Write the daily log files of a dataset, with a progress bar over its bytes."""
    title, total = f"import {dataset.name}", sum(raw.path.stat().st_size for raw in dataset.files)
    with progress_bar(title, total, counted=True) as show:
        return import_dataset(dataset, settings, partial(show, title))


def _count_option(name: str, argument: str, default: int, words: str) -> Callable[[_F], _F]:
    kind = click.IntRange(min=1)
    return click.option(name, argument, default=default, show_default=True, type=kind, help=words)


@click.command()
@_count_option("--days", "n_days", 28, "Days of logs.")
@_count_option("--users", "n_users", 2500, "Users in all.")
@_count_option("--items", "n_items", 600, "Items in all.")
@_count_option("--components", "n_components", 8, "Latent components.")
@_count_option("--events", "events_per_day", 2500, "Mean events per day.")
@click.option("--first-day", **A_DAY, help="By default such that the last one is today.")
@writes
def simulate(settings: Settings, /, first_day: date | None, **sizes: int) -> None:
    """Write days of logs of an invented record shop, from the model that MoM assumes.

    Users belong to one latent component each, a genre. New users and records appear, popularity
    drifts, some events come late, some lines are malformed. `items.csv` names the records.

    \b
    Example:
      MOM_DATA_DIR=data/sample mom-pipeline simulate --days 14
    """  # noqa: D301 - \b tells click to keep the lines
    there = discover(settings.logs_dir).files
    if there:
        raise LogFileError(
            f"{settings.logs_dir} already holds {len(there)} log files; choose another data folder "
            "(MOM_DATA_DIR=data/sample mom-pipeline simulate), or remove them"
        )
    write_sample(settings, first_day, **sizes)
    click.echo(f"{sizes['n_days']} days of sample logs in {settings.logs_dir}.")
    click.echo("Next: mom-pipeline update")


def write_sample(settings: Settings, first_day: date | None = None, **sizes: Any) -> None:
    """Write the sample's logs and its catalogue; by default up to today: no day is missing."""
    sample = SampleSettings(**sizes)
    today = datetime.now(settings.logs.zone).date()
    sample = replace(sample, first_day=first_day or today - timedelta(days=sample.n_days - 1))
    catalogue = Catalogue.open(settings.data_dir).with_missing(sample_records(sample))
    catalogue.save(settings.data_dir)
    for delivery in sample_deliveries(sample):
        write_bytes(settings.logs_dir / delivery.name, delivery.content)
