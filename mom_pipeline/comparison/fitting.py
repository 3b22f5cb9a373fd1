"""The work inside a worker process: fit with each of the settings, write lists."""

import resource
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.comparison.tasks import (
    Answer,
    ListWriter,
    Task,
    out_of_memory,
    read_data,
    read_later,
    read_task,
    write_answer,
)
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.topn import hide_seen, top_n
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr

# Scores held at one time by all threads together, in numbers.
_SCORES_IN_MEMORY = 32_000_000
_MAX_BLOCK = 1024
_BLOCKS_PER_WRITE = 32


def answer_task(data_folder: Path, task_folder: Path) -> None:
    """Do what the task asks; every setting has its answer as soon as it is done."""
    task = read_task(task_folder)
    train, users = read_data(data_folder)
    later = read_later(data_folder)
    for place, settings in enumerate(task.settings):
        answer = _answer(task, settings, train, users, later, task_folder, place)
        write_answer(task_folder, place, answer)


def _answer(
    task: Task,
    settings: Settings,
    train: Csr,
    users: Array,
    later: Csr | None,
    folder: Path,
    place: int,
) -> Answer:
    """Choose, fit and write lists; whatever goes wrong becomes a sentence."""
    chosen: dict[str, Any] = {}
    try:
        method: Method = import_module(task.registry).METHODS[task.method]
        if method.choose is not None and later is not None:
            chosen = dict(method.choose(train, later, settings, task.seed))
        begin = time.perf_counter()
        fitted = method.fit(train, {**settings, **chosen}, task.seed)
        fit_seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        shape = (len(users), min(task.length, train.shape[1]))
        with ListWriter(folder, place, shape) as writer:
            for ids in lists_of(fitted, train, users, shape[1], task.exclude_seen):
                writer.append(ids)
        predict_seconds = time.perf_counter() - begin
    except MemoryError:
        return Answer(failure=out_of_memory(task.memory_bytes))
    except ImportError as error:
        return Answer(failure=f"the library {error.name or error} is not installed")
    except MomError as error:
        return Answer(failure=str(error))
    except Exception as error:
        return Answer(failure=f"failed with {type(error).__name__}: {error}")
    return Answer("", fit_seconds, predict_seconds, peak_bytes(), fitted.notes, chosen)


def lists_of(
    fitted: Fitted, train: Csr, users: Array, length: int, exclude_seen: bool
) -> Iterator[Array]:
    """Yield the best items of the users, (some users, length) at a time, -1 for no candidate."""
    D = train.shape[1]
    block = max(1, min(_MAX_BLOCK, _SCORES_IN_MEMORY // (D * available_cores())))

    def best(start: int) -> Array:
        histories = train[users[start : start + block]]
        scores = fitted.scores(histories)
        if exclude_seen:
            hide_seen(scores, histories)
        return top_n(scores, length)[0]

    starts = range(0, len(users), block)
    for first in range(0, len(starts), _BLOCKS_PER_WRITE):
        yield np.vstack(map_blocks(best, starts[first : first + _BLOCKS_PER_WRITE]))


def peak_bytes() -> int:
    """Return the most memory that this program has had.

    On Linux not ru_maxrss: at the start of a program that is what its parent had.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
