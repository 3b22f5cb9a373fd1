"""Work in a process of its own, so that its time and memory are its own."""

import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def in_a_process(
    work: Callable[..., T], *arguments: Any, environment: Mapping[str, str] | None = None
) -> T:
    """Return the result of a function that a new interpreter imports and calls.

    environment: variables that it has besides those of this process.
    """
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, _with_variables, (dict(environment or {}),)) as pool:
        return pool.submit(work, *arguments).result()


def _with_variables(environment: dict[str, str]) -> None:
    os.environ.update(environment)
