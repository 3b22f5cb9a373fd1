"""Clocks, processes of their own, and tables: what all benches share."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from mom_pipeline.comparison.tables import NO_VALUE, Table

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Do the work; return its seconds by the wall clock and its result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def in_a_process(work: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function that a new interpreter imports and calls."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def tables_of(name: str, result: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table of a result's plain values, and one of each list of rows in it."""
    plain = [{"": _words(key), "value": shown(v)} for key, v in result.items() if _is(v)]
    if plain:
        yield Table.of(name, plain)
    for key, rows in result.items():
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            yield table_of(f"{name}: {_words(key)}", rows)


def table_of(caption: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of rows, of the columns that have a place in a cell."""
    kept = [column for column in rows[0] if any(_is(row.get(column)) for row in rows)]
    return Table.of(
        caption, [{_words(column): shown(row.get(column)) for column in kept} for row in rows]
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _is(value: Any) -> bool:
    """Tell whether a value has a place in a cell."""
    return isinstance(value, int | float | str | None) and value != ""


def shown(value: Any) -> Any:
    """Return a value as a cell shows it: four digits, a dash for none."""
    if isinstance(value, float):
        return format(value, ",.4g" if abs(value) < 1000 else ",.0f")
    return NO_VALUE if value is None else value
