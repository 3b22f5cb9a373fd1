"""`mom-pipeline start`: from a file of one's own to recommendations, in one command."""

import os
import re
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.run import ingest_before, run_days
from mom_pipeline.cli.sources import file_options, guessed, import_with_progress
from mom_pipeline.cli.terminal import print_table
from mom_pipeline.datasets.guessing import Guess, own_file
from mom_pipeline.datasets.importing import SUMMARY_FILE, Dataset
from mom_pipeline.logs.gate import excluded_days
from mom_pipeline.logs.ledger import delivery_days
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import day_statuses, days_behind
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.settings import DATA_DIR_VARIABLE, Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.lists import latest_items, sample_users

_PEOPLE, _SHOWN = 3, 5
_PARSED_ROWS = 5
# Excluded days at the end that are computed to get at a usual one.
_LONGEST_SEARCH = timedelta(days=28)
# What the choice of settings may take before the first list; `tune` takes its time.
_CHOICE_SECONDS = 8.0


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@file_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def start(file: Path, yes: bool, **choices: Any) -> None:
    """Recommend from FILE: a CSV, TSV, JSON lines or Parquet file with a line per event.

    How FILE is written is guessed and shown with some rows; options correct the guess. It is
    imported into a data folder of its own (MOM_DATA_DIR, by default `data/NAME`), the model of
    the newest day is computed from all rows and put in use, and some lists are shown. The older
    days add history and evaluation; `mom-pipeline update` computes them.

    \b
    Examples:
      mom-pipeline start orders.csv
      mom-pipeline start orders.csv --user Kunde --item-name Bezeichnung --yes
    """  # noqa: D301 - \b tells click to keep the lines
    guess = guessed(file, choices)
    _show(guess)
    if not yes and not click.confirm("Is that right? Options such as --user correct it", True):
        click.echo("Nothing was written. `mom-pipeline start --help` lists the options.")
        return
    begin = time.perf_counter()
    named = os.environ.get(DATA_DIR_VARIABLE)
    os.environ[DATA_DIR_VARIABLE] = folder = named or str(_own_folder(file))
    with writing_to(load_settings(), "mom-pipeline start", waiting=_tell):
        _import(own_file(guess))
        settings = load_settings()  # the import has written some
        newest, older = _first_model(settings)
        _print_people(settings, newest)
        click.echo(f"First lists after {time.perf_counter() - begin:.0f} s.")
    prefix = "" if named else f"{DATA_DIR_VARIABLE}={folder} "
    click.echo(_next_steps(prefix, older))


def _tell(message: str) -> None:
    click.secho(message, fg="yellow", err=True)


def _own_folder(file: Path) -> Path:
    """Return a data folder named after a file, without what shells would read.

    Never a part of the data folder `data`, such as its logs.
    """
    name = re.sub(r"[^\w-]+", "-", file.name.split(".")[0]).strip("-")
    folder = Path("data") / (name or "own")
    # A start that was interrupted before the summary has left its lock there.
    is_own = any((folder / name).exists() for name in (SUMMARY_FILE, ".writer"))
    is_other = folder.exists() and not is_own
    return folder.with_name(f"own-{folder.name}") if is_other else folder


def _show(guess: Guess) -> None:
    """Print the guess, and five rows as it reads them."""
    options = guess.options
    written = {"csv": f"text, delimiter {options.delimiter!r}", "jsonl": "JSON lines"}
    lines = [("format", written.get(options.file_format, "Parquet"))]
    if options.file_format != "parquet":
        lines.append(("encoding", options.encoding))
    lines += [
        ("user", options.user),
        ("item", options.item),
        ("time", f"{options.timestamp}, as {options.timestamp_format}, in {options.timezone}"),
        ("quantity", options.weight or "none: every line counts once"),
        ("name of the item", options.item_name or "none"),
        ("group of the item", options.item_group or "none"),
    ]
    print_table(f"How {guess.path.name} is read", ["", "column or choice"], lines)
    for note in guess.notes:
        click.secho(f"Note: {note}.", fg="yellow", err=True)
    columns = ["user", "item", "time", "quantity", "name"]
    print_table("The first rows", columns, guess.parsed_rows(_PARSED_ROWS))


def _import(dataset: Dataset) -> None:
    settings = load_settings()
    summary = import_with_progress(dataset, settings)
    words = (
        f"{summary.rows:,} rows of {summary.days} days, {summary.first_day} to {summary.last_day}"
    )
    click.echo(f"Imported {words}, into {settings.data_dir}.")


def _first_model(settings: Settings) -> tuple[date, int]:
    """Put the model of the newest usual day in use; return the newest day, and how many are behind.

    A day that is excluded, such as one that the file cuts short, has no model in use.
    """
    newest = days_behind(day_statuses(Days(settings)))[-1].day
    ingest_before(settings, newest)
    run_days(settings, newest, newest, only=["raw_logs", "interaction_matrix"])
    with Warehouse(settings).reading() as connection:
        excluded = excluded_days(connection)
        usual = [day for day in delivery_days(connection) if day not in excluded]
    first = max(usual[-1] if usual else newest, newest - _LONGEST_SEARCH)
    run_days(settings, first, newest, choice_seconds=_CHOICE_SECONDS)
    return newest, len(days_behind(day_statuses(Days(settings))))


def _print_people(settings: Settings, day: date) -> None:
    """Print some people, what they took last and their lists, by name."""
    catalogue = Catalogue.open(settings.data_dir)
    recommender = Recommender.open(settings.data_dir, exclude_seen=settings.serving.exclude_seen)
    with Warehouse(settings).reading() as connection:
        users = sample_users(connection, _PEOPLE)
        histories = [latest_items(connection, user, day, _SHOWN) for user in users]
    for user, history in zip(users, histories, strict=True):
        best = [line.item for line in recommender.recommend(user, _SHOWN).items]
        longest = max(len(history), len(best))
        took, listed = (
            [*map(catalogue.label, items), *[""] * (longest - len(items))]
            for items in (history, best)
        )
        rows = list(zip(took, listed, strict=True))
        print_table(f"{user}", ["took last", "recommended"], rows)


def _next_steps(prefix: str, older: int) -> str:
    ask = f"{prefix}mom-pipeline recommend USER"
    then = f"{prefix}mom-pipeline report  # a page about the model"
    if older:
        then = f"{prefix}mom-pipeline update  # the {older} older days: history and evaluation"
    return f"Next:\n  {ask}  # the list of one of your users\n  {then}"
