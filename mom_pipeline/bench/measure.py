"""Clocks, progress, processes of their own, and tables: what all benches share."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
# Called with what is being done, and the share of all that is done.
Progress = Callable[[str, float], None]


def no_progress(text: str, share: float) -> None:
    """Ignore progress."""


def within(progress: Progress, begin: float, share: float) -> Progress:
    """Return a part of a progress bar as one of its own."""
    return lambda text, done: progress(text, begin + share * done)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Do the work; return its seconds by the wall clock and its result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def in_a_process(work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function that a new interpreter imports and calls."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


@dataclass(frozen=True)
class Table:
    """Rows to print, each by column; the first column is of words, the others of numbers."""

    title: str
    rows: Sequence[Mapping[str, Any]]


def tables_of(name: str, result: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table of a result's plain values, and one of each list of rows in it."""
    plain = [{"": key.replace("_", " "), "value": _shown(v)} for key, v in result.items() if _is(v)]
    if plain:
        yield Table(name, plain)
    for key, rows in result.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            kept = [column for column in rows[0] if any(_is(row[column]) for row in rows)]
            shown = [{column.replace("_", " "): _shown(r[column]) for column in kept} for r in rows]
            yield Table(f"{name}: {key.replace('_', ' ')}", shown)


def _is(value: Any) -> bool:
    """Tell whether a value has a place in a cell."""
    return isinstance(value, int | float | str | None) and value != ""


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return format(value, ",.4g" if abs(value) < 1000 else ",.0f")
    return "–" if value is None else value
