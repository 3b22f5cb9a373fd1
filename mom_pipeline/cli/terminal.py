"""What commands share: options, the lock of the data folder, tables, JSON and progress bars."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec

import click
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.logs.logfiles import printable
from mom_pipeline.settings import Settings, load_settings

P = ParamSpec("P")


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
    numbers: Collection[str] = (),
    whole: Collection[str] = (),
) -> None:
    """Print a table: numbers to the right with thousands separators, text as it is.

    numbers: columns of numbers that come as text.  whole: columns of ids, which a narrow terminal
    does not break: an id in two parts cannot be copied.
    """
    table = Table(title=escape(_printable(title)), title_justify="left", header_style="bold")
    lines = [list(row) for row in rows]
    for position, name in enumerate(columns):
        values = [line[position] for line in lines]
        numeric = values and all(isinstance(value, int | float) for value in values)
        justify: JustifyMethod = "right" if numeric or name in numbers else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    for line in lines:
        table.add_row(*[_shown(value) for value in line])
    Console().print(table)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else escape(_printable(str(value)))


def _printable(text: str) -> str:
    """Text with all but its line breaks printable."""
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def step_progress(title: str) -> Iterator[Callable[[str, float], None]]:
    """A progress bar, driven by the present step and the share that is done."""
    with _progress(title, 1.0, TimeElapsedColumn()) as update:
        yield lambda text, share: update(description=text, completed=share)


@contextmanager
def count_progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar that counts steps, driven by the name of each step that is done."""
    with _progress("starting", total, MofNCompleteColumn(), TimeElapsedColumn()) as update:
        yield lambda text: update(description=text, advance=1)


@contextmanager
def byte_progress(title: str, total: int) -> Iterator[Callable[[str, int], None]]:
    """A progress bar over bytes, driven by the name of a file and the bytes that were read."""
    with _progress(title, total, DownloadColumn(), TimeRemainingColumn()) as update:
        yield lambda text, n: update(description=text, advance=n)


@contextmanager
def _progress(title: str, total: float, *columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """A bar on standard error, which vanishes in the end; plain lines where that is no terminal."""
    console = Console(stderr=True)
    kind = Progress if console.is_terminal else _Lines
    text = TextColumn("{task.description}", markup=False)
    with kind(SpinnerColumn(), text, BarColumn(), *columns, console=console, transient=True) as bar:
        yield partial(bar.update, bar.add_task(title, total=total))


class _Lines(Progress):
    """Progress as a line for every tenth of the work: for a file or a pipe."""

    def __init__(self, *columns: ProgressColumn, **options: Any) -> None:
        super().__init__(*columns, **options, disable=True)
        self._tenths = 0

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Take note of the work that is done; say so where that is another tenth."""
        super().update(task_id, **changes)
        (task,) = self.tasks
        tenth = int(task.percentage // 10)
        if tenth > self._tenths:
            self._tenths = tenth
            click.echo(f"{10 * tenth:3d} % {_printable(task.description)}", err=True)
