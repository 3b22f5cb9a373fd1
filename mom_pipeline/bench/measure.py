"""Helpers of all benchmarks: clocks, turns, separate processes, and tables to print.

Times are by wall clock and by CPU: the second stays honest on a busy machine.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Csr

T = TypeVar("T")
# Told what is being done, and the share of all that is done.
Progress = Callable[[str, float], None]


def no_progress(text: str, share: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Seconds:
    """Time of one piece of work; `cpu` is summed over the threads of this process."""

    wall: float
    cpu: float


def timed(work: Callable[[], T]) -> tuple[Seconds, T]:
    """Do the work; returns its time and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu), result


def best_in_turns(
    works: Mapping[str, Callable[[], Seconds]],
    repeats: int,
    *,
    warm_up: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Seconds]:
    """Do all works in turns; returns the shortest times of each.

    warm_up: a first turn is not counted, so that no figure pays for memory touched for the first
    time.
    """
    times: dict[str, list[Seconds]] = {name: [] for name in works}
    for turn in range(repeats + warm_up):
        for name, work in works.items():
            seconds = work()
            if turn >= warm_up:
                times[name].append(seconds)
        progress((turn + 1) / (repeats + warm_up))
    return {
        name: Seconds(min(s.wall for s in own), min(s.cpu for s in own))
        for name, own in times.items()
    }


def compare(name: str, best: Mapping[str, Seconds]) -> dict[str, Any]:
    """Seconds of "ours", under the given name, and of the "bare" peer, with their ratios."""
    ours, bare = best["ours"], best["bare"]
    return {
        "bare_seconds": bare.wall,
        f"{name}_seconds": ours.wall,
        "ratio": ours.wall / bare.wall,
        "bare_cpu_seconds": bare.cpu,
        f"{name}_cpu_seconds": ours.cpu,
        "cpu_ratio": ours.cpu / bare.cpu,
    }


def described(X: Csr, n_components: int, seed: int) -> dict[str, int]:
    """The size of the data and what else decides a result."""
    return {
        "n_users": X.shape[0],
        "n_items": X.shape[1],
        "n_pairs": int(X.nnz),
        "n_components": n_components,
        "seed": seed,
        "cores": available_cores(),
    }


@dataclass
class Stopwatch:
    """Wall-clock seconds of named steps."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block."""
        begin = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - begin


def in_a_process(
    work: Callable[..., T], *arguments: Any, environment: Mapping[str, str] | None = None
) -> T:
    """Return the result of a function that a new interpreter imports and calls.

    environment: variables that it has besides those of this process.
    """
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, _set_variables, (dict(environment or {}),)) as pool:
        return pool.submit(work, *arguments).result()


def _set_variables(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)


@dataclass(frozen=True)
class Table:
    """Rows to print, each by column; the first column is of words, the others of numbers."""

    title: str
    rows: Sequence[Mapping[str, Any]]


def value_table(title: str, values: Mapping[str, Any]) -> Table:
    """A line for each value that is a number or a word."""
    shown = {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    return Table(
        title,
        [
            {
                "": name.replace("_", " "),
                "value": round(value, 3) if isinstance(value, float) else value,
            }
            for name, value in shown.items()
        ],
    )
