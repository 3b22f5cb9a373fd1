"""Work on all cores with numpy alone: Python threads over blocks, BLAS held to one each.

Sparse products, elementwise products and sorting use one core in numpy and scipy, but they
release the interpreter lock, so blocks of them run side by side. Blocks depend on the data
alone, and results are added in the order of the blocks: the number of threads changes how long
a result takes, never the result.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Lock
from typing import TypeVar

import numpy as np
import scipy.linalg  # noqa: F401 - loads scipy's own BLAS, so that it is held as well
from threadpoolctl import OpenBLASController, ThreadpoolController

from mom_pipeline.core.types import Array

Task = TypeVar("Task")
Result = TypeVar("Result")
Sum = TypeVar("Sum")

_granted: ContextVar[int | None] = ContextVar("granted cores", default=None)


@contextmanager
def using_cores(n: int) -> Iterator[None]:
    """Have the work inside the block use n cores."""
    token = _granted.set(n)
    try:
        yield
    finally:
        _granted.reset(token)


def available_cores() -> int:
    """Return how many cores this process may use, or the number given by `using_cores`."""
    granted = _granted.get()
    if granted is not None:
        return granted
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_blocks(work: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Apply `work` to every task on a pool of threads; results in the order of the tasks."""
    tasks = list(tasks)
    n_threads = min(available_cores(), len(tasks))
    with one_blas_thread():
        if n_threads <= 1:
            return [work(task) for task in tasks]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(_mapped(pool, work, tasks))


def _mapped(
    pool: ThreadPoolExecutor, work: Callable[[Task], Result], tasks: list[Task]
) -> Iterator[Result]:
    """Yield results in order; threads have what this context grants, and a share of the cores."""
    share = max(available_cores() // max(min(available_cores(), len(tasks)), 1), 1)
    contexts = [copy_context() for _ in tasks]
    for context in contexts:
        context.run(_granted.set, share)
    return pool.map(lambda context, task: context.run(work, task), contexts, tasks)


def sum_blocks(work: Callable[[Task], Sum], tasks: Iterable[Task]) -> Sum:
    """Sum of the results, at least one, in the order of the tasks; few wait at a time."""
    tasks = list(tasks)
    with one_blas_thread(), ThreadPoolExecutor(max(min(available_cores(), len(tasks)), 1)) as pool:
        results = _mapped(pool, work, tasks)
        total = next(results)
        for result in results:
            total += result  # type: ignore[operator]
    return total


def cut(before: Array, size: int, most: int) -> list[slice]:
    """Blocks of rows: up to `size` in all and `most` rows. before: (rows + 1,) cumulated sizes."""
    before, blocks, start = before.astype(np.int64), [], 0
    while start < len(before) - 1:
        stop = int(np.searchsorted(before, before[start] + size, side="right")) - 1
        stop = min(max(stop, start + 1), start + most)
        blocks.append(slice(start, stop))
        start = stop
    return blocks


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS, numpy's and scipy's, to one thread inside the block.

    Many small matrix products on threads of our own beat the library's threads, but the two
    together are slower than either. Blocks may nest and overlap: the last one to end restores.
    """
    _held.enter()
    try:
        yield
    finally:
        _held.leave()


class _HeldBlas:
    """Counts the blocks that hold BLAS, and restores its threads after the last of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._restore: Callable[[], None] = lambda: None

    def enter(self) -> None:
        with self._lock:
            if self._holders == 0:
                _take_control()
                limit = _libraries().limit(limits=1, user_api="blas")
                self._restore = limit.restore_original_limits
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                _take_control()
                self._restore()
                _take_control()


_held = _HeldBlas()


def _take_control() -> None:
    """Let this thread set the limits of OpenBLAS, which threadpoolctl keeps for one at a time."""
    release = getattr(OpenBLASController, "clear_controlling_thread", None)  # from 3.8 on
    if release is not None:
        release(force=True)


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
