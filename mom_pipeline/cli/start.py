"""`mom-pipeline start`: from a file of one's own to recommendations, in one command."""

import os
import re
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.writer import writing_to
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.run import bring_up_to_date, print_notes, print_results, run_days
from mom_pipeline.cli.sources import import_with_progress
from mom_pipeline.cli.terminal import DELIMITER, print_table
from mom_pipeline.datasets import SUMMARY_FILE, Dataset, Guess, csv_file, guess_file, parsed_rows
from mom_pipeline.defs.freshness import (
    NOT_COMPUTABLE,
    DayFreshness,
    days_behind,
    freshness,
    stretches,
)
from mom_pipeline.logs.admission import held_days
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.settings import DATA_DIR_VARIABLE, Settings, load_settings
from mom_pipeline.warehouse import recommendations as lists
from mom_pipeline.warehouse.connection import Warehouse

_PEOPLE, _SHOWN = 3, 5
_PARSED_ROWS = 5
# Days of a run that writes no arrays.
_NO_ARRAYS = 3_660
# What the choice of settings may take before the first list; `tune` takes its time.
_CHOICE_SECONDS = 8.0


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--user", help="Column of the user.")
@click.option("--item", help="Column of the item.")
@click.option("--timestamp", help="Column of the time.")
@click.option("--weight", help='Column of the quantity; "" for none.')
@click.option("--item-name", help='Column of the item\'s name; "" for none.')
@click.option("--item-group", help='Column of the item\'s group; "" for none.')
@click.option("--timestamp-format", help="iso, epoch_s, epoch_ms or a pattern like '%d.%m.%Y'.")
@click.option("--delimiter", type=DELIMITER, help="One of , ; | or tab.")
@click.option("--encoding", help="Encoding of the text, such as latin-1.")
@click.option("--timezone", help="Zone of the times.  [default: UTC]")
@click.option("--header/--no-header", "has_header", default=None, help="Whether line 1 is names.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--history", is_flag=True, help="Compute the older days as well, after the lists.")
def start(file: Path, yes: bool, history: bool, **choices: Any) -> None:
    """Recommend from FILE: a CSV, TSV, JSON lines or Parquet file with a line per event.

    How FILE is written is guessed and shown with some rows; options correct the guess. It is
    imported into a data folder of its own (MOM_DATA_DIR, by default `data/NAME`), the model of
    the newest day is computed from all rows and put in use, and some lists are shown. The older
    days add history and evaluation; `--history` or `mom-pipeline update` computes them.

    \b
    Examples:
      mom-pipeline start orders.csv
      mom-pipeline start orders.csv --user Kunde --item-name Bezeichnung --yes
    """  # noqa: D301 - \b tells click to keep the lines
    guess = guess_file(file, {name: v for name, v in choices.items() if v is not None})
    dataset = csv_file(file, replace(guess.options, set_aside=True))
    _show(file, guess)
    if not yes and not click.confirm("Is that right? Options such as --user correct it", True):
        click.echo("Nothing was written. `mom-pipeline start --help` lists the options.")
        return
    begin = time.perf_counter()
    named = os.environ.get(DATA_DIR_VARIABLE)
    os.environ[DATA_DIR_VARIABLE] = folder = named or str(_own_folder(file))
    with writing_to(load_settings(), "mom-pipeline start", waiting=_tell):
        _import(dataset)
        settings = load_settings()  # the import has written some
        newest, older = _first_model(settings)
        _print_people(settings, newest)
        click.echo(f"First lists after {time.perf_counter() - begin:.0f} s.")
        if older and (history or (not yes and _wants_history(older))):
            bring_up_to_date(settings)
            print_results(settings, newest)
            print_notes(settings)
            older = 0
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
    is_other = folder.exists() and not (folder / SUMMARY_FILE).exists()
    return folder.with_name(f"own-{folder.name}") if is_other else folder


def _show(file: Path, guess: Guess) -> None:
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
    print_table(f"How {file.name} is read", ["", "column or choice"], lines)
    for note in guess.notes:
        click.secho(f"Note: {note}.", fg="yellow", err=True)
    columns = ["user", "item", "time", "quantity", "name"]
    print_table("The first rows", columns, parsed_rows(file, options, _PARSED_ROWS))


def _import(dataset: Dataset) -> None:
    settings = load_settings()
    summary = import_with_progress(dataset, settings)
    words = (
        f"{summary.rows:,} rows of {summary.days} days, {summary.first_day} to {summary.last_day}"
    )
    click.echo(f"Imported {words}, into {settings.data_dir}.")


def _first_model(settings: Settings) -> tuple[date, int]:
    """Put the model of the newest day in use; return it, and how many older ones are behind."""
    # All days in order, so that each is judged by those before it.
    days = _computable(settings)
    for first, last in stretches(days, longest=_NO_ARRAYS):
        run_days(settings, first, last, only=["raw_logs"])
    with Warehouse(settings).reading() as connection:
        held = held_days(connection)
    # A day that was kept out, such as one that the file cuts short, has no model in use.
    newest = ([entry.day for entry in days if entry.day not in held] or [days[-1].day])[-1]
    run_days(settings, newest, newest, choice_seconds=_CHOICE_SECONDS)
    return newest, len(days_behind(_computable(settings)))


def _computable(settings: Settings) -> list[DayFreshness]:
    entries = freshness(Warehouse(settings), DayState(settings))
    return [entry for entry in entries if entry.status not in NOT_COMPUTABLE]


def _wants_history(older: int) -> bool:
    return click.confirm(f"Compute the {older} older days now, for history and evaluation?", False)


def _print_people(settings: Settings, day: date) -> None:
    """Print some people, what they took last and their lists, by name."""
    catalogue = Catalogue.open(settings.data_dir)
    recommender = Recommender.open(settings.data_dir, exclude_seen=settings.serving.exclude_seen)
    with Warehouse(settings).reading() as connection:
        users = lists.sample_users(connection, day, _PEOPLE)
        histories = [lists.latest_items(connection, user, day, _SHOWN) for user in users]
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
    then = f"{prefix}mom-pipeline report --open  # a page about the model"
    if older:
        then = f"{prefix}mom-pipeline update  # the {older} older days: history and evaluation"
    return f"Next:\n  {ask}  # the list of one of your users\n  {then}"
