"""Work on all cores with numpy alone: Python threads over blocks, BLAS held to one each.

Sparse products, elementwise products and sorting use one core in numpy and scipy, but they
release the interpreter lock, so blocks of them run side by side.
"""

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np

_SMALL_WORK = 1_000_000

Task = TypeVar("Task")
Result = TypeVar("Result")


_granted: ContextVar[int | None] = ContextVar("granted cores", default=None)


@contextmanager
def using_cores(n: int) -> Iterator[None]:
    """Have the work inside the block use n cores, BLAS included where n is 1."""
    token = _granted.set(n)
    try:
        with one_blas_thread() if n == 1 else nullcontext():
            yield
    finally:
        _granted.reset(token)


def available_cores() -> int:
    """How many cores this process may use, or the work at hand where that was said."""
    granted = _granted.get()
    if granted is not None:
        return granted
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_blocks(
    work: Callable[[Task], Result], tasks: Iterable[Task], *, n_threads: int | None = None
) -> list[Result]:
    """Apply `work` to every task on a pool of threads; results in the order of the tasks.

    BLAS is held to one thread meanwhile; a single task keeps all of its threads.
    """
    tasks = list(tasks)
    n_threads = min(n_threads or available_cores(), len(tasks))
    if n_threads <= 1:
        return [work(task) for task in tasks]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, tasks))


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Hold numpy's OpenBLAS to one thread inside the block.

    Many small matrix products on threads of our own beat the library's threads, but the two
    together are slower than either. Blocks may nest and overlap: the last one to end restores.
    Yields False where the BLAS is another one and cannot be held.
    """
    control = _openblas_control()
    if control is None:
        yield False
        return
    _held.enter(*control)
    try:
        yield True
    finally:
        _held.leave(control[1])


class _HeldBlas:
    """How many blocks hold BLAS now, and its number of threads before the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._before = 0

    def enter(self, get_threads: Callable[[], int], set_threads: Callable[[int], None]) -> None:
        with self._lock:
            if self._holders == 0:
                self._before = get_threads()
                set_threads(1)
            self._holders += 1

    def leave(self, set_threads: Callable[[int], None]) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                set_threads(self._before)


_held = _HeldBlas()


def small_work(size: int) -> AbstractContextManager[bool]:
    """Hold BLAS to one thread for work on fewer numbers than `_SMALL_WORK`.

    Threads gain little there, and lose much when other processes want the cores too.
    """
    return one_blas_thread() if size < _SMALL_WORK else nullcontext(False)


@cache
def _openblas_control() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Find the functions that read and set the thread count of the OpenBLAS numpy ships."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            library = ctypes.CDLL(str(path))
            for name in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_"):
                try:
                    return (
                        getattr(library, name.format("get_num_threads")),
                        getattr(library, name.format("set_num_threads")),
                    )
                except AttributeError:
                    continue
    return None
