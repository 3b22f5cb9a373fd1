"""Fits of one method in a separate process: one for each of some settings, with its lists.

The data, the lists and what a process prints lie in files; the measurements come through a pipe,
one `Answer` per setting as soon as it is done. The test data do not reach the process. Nothing
is imported here that a method does not need: its memory is that of the process.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.isolated import Budget, out_of_memory, peak_bytes, run_isolated
from mom_pipeline.comparison.methods.interface import Fitted, Method, Settings
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.ranking.topn import brute_force
from mom_pipeline.core.types import Array, Csr

_TRAIN, _USERS, _LATER, _LAST_DAYS = "train.npz", "users.npy", "later.npz", "last_days.npz"
_USERS_PER_WRITE = 8192


@dataclass(frozen=True)
class Task:
    """Fit one method with each of some settings, and make lists.

    registry: module whose `METHODS` holds the method.  length: items in a list.
    """

    registry: str
    method: str
    settings: tuple[Settings, ...]
    seed: int
    length: int
    exclude_seen: bool


@dataclass(frozen=True)
class Answer:
    """The result of one setting; failure is empty when there are lists.

    chosen: settings that the method chose by itself on later data.
    """

    failure: str = ""
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)


def write_data(
    folder: Path,
    train: Csr,
    users: Array,
    later: Csr | None = None,
    last_days: Csr | None = None,
) -> None:
    """Store the data of all methods: the training matrix and the users to make lists for.

    later: (N, D) what the users took later, for methods that choose settings by themselves.
    last_days: (N, D) of `train`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / _USERS, users, allow_pickle=False)
    for name, matrix in ((_TRAIN, train), (_LATER, later), (_LAST_DAYS, last_days)):
        if matrix is not None:
            sparse.save_npz(folder / name, matrix, compressed=False)


def run_task(
    data_folder: Path,
    task_folder: Path,
    task: Task,
    budget: Budget,
    progress: Callable[[int], None] = lambda n_done: None,
) -> list[Answer]:
    """Have a task done by a new process; one answer per setting, a failure where there is none.

    progress: called with the number of settings that are done.
    """
    task_folder.mkdir(parents=True, exist_ok=True)
    answers: list[Answer] = []

    def collect(answer: Answer) -> None:
        answers.append(answer)
        progress(len(answers))

    progress(0)
    reason = run_isolated(
        f"{__name__}:answer_task",
        (str(data_folder), str(task_folder), asdict(task), budget.memory_bytes),
        budget,
        task_folder / "printed.txt",
        collect,
    )
    return answers + [Answer(failure=reason)] * (len(task.settings) - len(answers))


def read_lists(folder: Path, position: int) -> Array:
    """Return the lists of a setting, (users, length), read from the disk as they are used."""
    return np.load(_lists_path(folder, position), mmap_mode="r", allow_pickle=False)


def answer_task(
    data_folder: str, task_folder: str, values: dict[str, Any], memory_bytes: int
) -> Iterator[Answer]:
    """Yield an answer per setting of a task; whatever goes wrong becomes a sentence."""
    task, data = Task(**values), Path(data_folder)
    train = sparse.csr_array(sparse.load_npz(data / _TRAIN))
    users = np.load(data / _USERS, allow_pickle=False)
    later, last_days = (_read_matrix(data / name) for name in (_LATER, _LAST_DAYS))
    for position, settings in enumerate(task.settings):
        try:
            fitted, answer = _fit(task, settings, train, later, last_days)
            begin = time.perf_counter()
            shape = (len(users), min(task.length, train.shape[1]))
            histories = train if fitted.histories is None else fitted.histories
            lists = _lists(fitted, histories, users, shape[1], task.exclude_seen)
            _write_lists(_lists_path(Path(task_folder), position), shape, lists)
            seconds = time.perf_counter() - begin
            yield replace(answer, predict_seconds=seconds, peak_bytes=peak_bytes())
        except Exception as error:
            yield Answer(failure=_failure(error, memory_bytes))


def _read_matrix(path: Path) -> Csr | None:
    return sparse.csr_array(sparse.load_npz(path)) if path.exists() else None


def _fit(
    task: Task, settings: Settings, train: Csr, later: Csr | None, last_days: Csr | None
) -> tuple[Fitted, Answer]:
    method: Method = import_module(task.registry).METHODS[task.method]
    dated = {"last_days": last_days} if method.reads_days else {}
    chosen: dict[str, Any] = {}
    if method.choose is not None and later is not None:
        chosen = dict(method.choose(train, later, settings, task.seed, **dated))
    begin = time.perf_counter()
    fitted = method.fit(train, {**settings, **chosen}, task.seed, **dated)
    seconds = time.perf_counter() - begin
    return fitted, Answer(fit_seconds=seconds, notes=fitted.notes, chosen=chosen)


def _failure(error: Exception, memory_bytes: int) -> str:
    match error:
        case MemoryError():
            return out_of_memory(memory_bytes)
        case ImportError():
            return f"the library {error.name or error} is not installed"
        case MomError():
            return str(error)
    return f"failed with {type(error).__name__}: {error}"


def _lists(
    fitted: Fitted, histories: Csr, users: Array, length: int, exclude_seen: bool
) -> Iterator[Array]:
    """Yield the best items of some users at a time, (users, length), -1 for no candidate."""
    for start in range(0, len(users), _USERS_PER_WRITE):
        rows = histories[users[start : start + _USERS_PER_WRITE]]
        yield brute_force(rows, fitted.scores, length, exclude_seen=exclude_seen)[0]


def _write_lists(path: Path, shape: tuple[int, int], blocks: Iterable[Array]) -> None:
    """Write a .npy file block by block: only one block is in memory."""
    with path.open("wb") as out:
        header = {"descr": "<i4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for ids in blocks:
            out.write(np.ascontiguousarray(ids, dtype="<i4").tobytes())


def _lists_path(folder: Path, position: int) -> Path:
    return folder / f"lists-{position}.npy"
