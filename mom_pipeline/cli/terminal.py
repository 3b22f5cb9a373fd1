"""Output of all commands: tables, JSON and progress bars; and the options that they share."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

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
from mom_pipeline.settings import load_settings

json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON instead of a table.")
DAY = click.DateTime(["%Y-%m-%d"])


class _Delimiter(click.ParamType[str]):
    """A character that separates fields; a tab may be spelled out, as shells make it hard."""

    name = "text"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return {"tab": "\t", "\\t": "\t"}.get(value, value)


DELIMITER = _Delimiter()
day_option = click.option(
    "--day", type=DAY, metavar="YYYY-MM-DD", help="One delivery day, such as 2024-03-01."
)


P = ParamSpec("P")


def writes(command: Callable[P, None]) -> Callable[P, None]:
    """Hold the lock of the data folder while a command runs; wait for it, and say for whom."""

    @wraps(command)
    def locked(*arguments: P.args, **options: P.kwargs) -> None:
        name = click.get_current_context().info_name
        with writing_to(load_settings(), f"mom-pipeline {name}", waiting=_tell):
            command(*arguments, **options)

    return locked


def _tell(message: str) -> None:
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
        numeric = name in numbers or (
            bool(lines) and all(isinstance(line[position], int | float) for line in lines)
        )
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    for line in lines:
        table.add_row(*[_shown(value) for value in line])
    Console().print(table)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else escape(_printable(str(value)))


def _printable(text: str) -> str:
    """Return text with all but its line breaks printable."""
    return "\n".join(printable(line) for line in text.split("\n"))


@contextmanager
def step_progress(title: str) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar, driven by the present step and the share that is done."""
    with _progress(TimeElapsedColumn()) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda text, share: bar.update(task, description=escape(text), completed=share)


@contextmanager
def count_progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar that counts steps, driven by the name of each step that is done."""
    with _progress(MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text: bar.update(task, description=escape(text), advance=1)


def byte_progress() -> Progress:
    """Return a progress bar over bytes."""
    return _progress(DownloadColumn(), TimeRemainingColumn())


def _progress(*columns: ProgressColumn) -> Progress:
    """Return a progress bar on standard error, which vanishes when the work is done.

    Where standard error is no terminal, plain lines instead.
    """
    console = Console(stderr=True)
    kind = Progress if console.is_terminal else _Lines
    shown = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *columns)
    return kind(*shown, console=console, transient=True)


class _Lines(Progress):
    """Progress as a line for every tenth of the work: for a file or a pipe."""

    def __init__(self, *columns: ProgressColumn, **options: Any) -> None:
        super().__init__(*columns, **options, disable=True)
        self._tenths: dict[TaskID, int] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Take note of the work that is done; say so where that is another tenth."""
        super().update(task_id, **changes)
        task = next(task for task in self.tasks if task.id == task_id)
        tenth = int(task.percentage // 10)
        if tenth > self._tenths.get(task_id, 0):
            self._tenths[task_id] = tenth
            click.echo(f"{10 * tenth:3d} % {_printable(task.description)}", err=True)
