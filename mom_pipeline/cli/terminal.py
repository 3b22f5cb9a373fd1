"""What commands share: options, the lock of the data folder, tables, JSON and progress bars."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import click
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.logs.logfiles import printable
from mom_pipeline.settings import Settings, load_settings

P = ParamSpec("P")
# What stands to the right: a number, or a dash in the place of one.
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?%?|\.\d+|–|")
DAY = click.DateTime(["%Y-%m-%d"])
# What an option, or an argument, of a day is.
A_DAY: dict[str, Any] = {
    "type": DAY,
    "metavar": "YYYY-MM-DD",
    "callback": lambda ctx, param, moment: moment.date() if moment else None,
}
day_option = click.option("--day", **A_DAY, help="One delivery day, such as 2024-03-01.")
json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON instead of a table.")


def writes(command: Callable[Concatenate[Settings, P], None]) -> Callable[P, None]:
    """Hold the lock of the data folder while a command runs with its settings; wait for it."""

    @wraps(command)
    def locked(*arguments: P.args, **options: P.kwargs) -> None:
        who, settings = f"mom-pipeline {click.get_current_context().info_name}", load_settings()
        with writing_to(settings, who, waiting=warn) as waited:
            command(load_settings() if waited else settings, *arguments, **options)

    return locked


def warn(message: str) -> None:
    """Say something that a person should know, on standard error."""
    click.secho(message, fg="yellow", err=True)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    whole: Collection[str] = (),
) -> None:
    """Print a table, numbers to the right; columns of `whole` ids are not broken by a terminal."""
    table = Table(title=escape(_printable(title)), title_justify="left", header_style="bold")
    lines = [[_shown(value) for value in row] for row in rows]
    for position, name in enumerate(columns):
        numeric = all(_NUMBER.fullmatch(line[position]) for line in lines)
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    for line in lines:
        table.add_row(*line)
    Console().print(table)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else escape(_printable(str(value)))


def _printable(text: str) -> str:
    """Text with all but its line breaks printable."""
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def progress_bar(
    title: str, total: float = 1.0, *, counted: bool = False
) -> Iterator[Callable[[str, float], None]]:
    """Yield what shows a step, and how much of the total is done, or with `counted` how much more.

    A bar on standard error, which vanishes in the end; a line for every tenth where that is a file.
    """
    console, done, tenth = Console(stderr=True), 0.0, 0
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    is_plain = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_plain) as bar:
        task = bar.add_task(title, total=total)

        def show(step: str, n: float) -> None:
            nonlocal done, tenth
            done = done + n if counted else n
            bar.update(task, description=step, completed=done)
            now = int(10 * done / (total or 1))
            if is_plain and now > tenth:
                click.echo(f"{10 * now:3d} % {_printable(step)}", err=True)
            tenth = max(now, tenth)

        yield show
