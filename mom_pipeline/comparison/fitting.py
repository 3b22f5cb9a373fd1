"""Fits of one method in a separate process: one for each of some settings, with its lists.

The data and the lists lie in files; a `FitAnswer` per setting comes through a pipe as soon as it is
done. The test data do not reach the process. Nothing is imported here that a method does not
need: its memory is that of the process.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.isolated import Budget, out_of_memory, peak_bytes, run_isolated
from mom_pipeline.comparison.methods.interface import Method, Settings
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.learning import Window
from mom_pipeline.core.ranking.topn import hide_seen, top_n, user_blocks
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

_MATRICES = ("train", "later", "last_days")
_USERS_PER_WRITE = 8192


@dataclass(frozen=True)
class Task:
    """Fit one method with each of some settings, and make lists of `length` items."""

    registry: str  # module whose `METHODS` holds the method
    method: str
    settings: tuple[Settings, ...]
    seed: int
    length: int
    exclude_seen: bool


@dataclass(frozen=True)
class FitAnswer:
    """The result of one setting; failure is empty when there are lists."""

    failure: str = ""
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)  # by the method itself, on later data


def write_data(folder: Path, users: Array, *windows: tuple[Csr, Csr | None, Csr | None]) -> None:
    """Store users to make lists for, and windows of (train, later, last days), each (N, D)."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "users.npy", users, allow_pickle=False)
    for number, window in enumerate(windows):
        for name, matrix in zip(_MATRICES, window, strict=True):
            if matrix is not None:
                sparse.save_npz(folder / f"{name}-{number}.npz", matrix, compressed=False)


def run_task(
    data_folder: Path,
    task_folder: Path,
    task: Task,
    budget: Budget,
    progress: Callable[[int], None] = lambda n_done: None,
) -> list[FitAnswer]:
    """Have a task done by a new process, an answer per setting. progress: told how many so far."""
    task_folder.mkdir(parents=True, exist_ok=True)
    answers: list[FitAnswer] = []

    def collect(answer: FitAnswer) -> None:
        answers.append(answer)
        progress(len(answers))

    progress(0)
    # Plain values: the modules of others would be imported before the limits stand.
    reason = run_isolated(
        f"{__name__}:answer_task",
        (str(data_folder), str(task_folder), asdict(task), budget.memory_bytes),
        budget,
        task_folder / "printed.txt",
        collect,
    )
    return answers + [FitAnswer(failure=reason)] * (len(task.settings) - len(answers))


def read_lists(folder: Path, position: int) -> Array:
    """Return the lists of a setting, (users, length), read from the disk as they are used."""
    return np.load(folder / f"lists-{position}.npy", mmap_mode="r", allow_pickle=False)


def answer_task(
    data_folder: str, task_folder: str, values: dict[str, Any], memory_bytes: int
) -> Iterator[FitAnswer]:
    """Yield an answer per setting of a task; whatever goes wrong becomes a sentence."""
    data, task = Path(data_folder), Task(**values)
    matrices = [_matrices(data, number) for number in range(len([*data.glob("train-*.npz")]))]
    users = np.load(data / "users.npy", allow_pickle=False)
    for position, settings in enumerate(task.settings):
        lists = Path(task_folder) / f"lists-{position}.npy"
        try:
            yield _answer(task, settings, users, lists, matrices)
        except Exception as error:
            yield FitAnswer(failure=_failure(error, memory_bytes))


def _matrices(folder: Path, number: int) -> list[Any]:
    """The matrices of a window; None where there is none."""
    files = [folder / f"{name}-{number}.npz" for name in _MATRICES]
    return [sparse.csr_array(sparse.load_npz(file)) if file.exists() else None for file in files]


def _answer(
    task: Task, settings: Settings, users: Array, path: Path, matrices: Sequence[Any]
) -> FitAnswer:
    """Choose what the method chooses by itself, fit it, and write the lists of the users."""
    (train, _, last_days), new = matrices[0], task.exclude_seen
    windows = [Window(*own) for own in matrices if own[1] is not None]
    method: Method = import_module(task.registry).METHODS[task.method]
    given = {"last_days": last_days, "exclude_seen": new}
    chosen: dict[str, Any] = {}
    if method.choose is not None and windows:
        chosen = dict(method.choose(windows, task.seed, exclude_seen=new, **settings))
    begin = time.perf_counter()
    own = {name: given[name] for name in method.takes}
    fitted = method.fit(train, task.seed, **{**settings, **chosen, **own})
    middle = time.perf_counter()
    shape = (len(users), min(task.length, train.shape[1]))

    def listed(own: Array) -> Array:
        scores = fitted.scores(own)
        if new:
            hide_seen(scores, train[own])
        return top_n(scores, shape[1])[0].astype("<i4")

    with path.open("wb") as out:  # some users at a time: not all lists are in memory
        header = {"descr": "<i4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for start in range(0, len(users), _USERS_PER_WRITE):
            some = users[start : start + _USERS_PER_WRITE]
            blocks = [some[block] for block in user_blocks(len(some), train.shape[1])]
            out.writelines(lists.tobytes() for lists in map_blocks(listed, blocks))
    seconds = middle - begin, time.perf_counter() - middle
    return FitAnswer("", *seconds, peak_bytes(), fitted.notes, chosen)


def _failure(error: Exception, memory_bytes: int) -> str:
    match error:
        case MemoryError():
            return out_of_memory(memory_bytes)
        case ImportError():
            return f"a library is missing ({error}); pip install 'mom-pipeline[baselines]'"
        case MomError():
            return str(error)
    return f"failed with {type(error).__name__}: {error}"
