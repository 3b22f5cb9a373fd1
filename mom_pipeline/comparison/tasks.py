"""What is asked of a worker process and what it answers: JSON beside arrays, in one folder."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.interface import Settings
from mom_pipeline.core.files import write_text
from mom_pipeline.core.types import Array, Csr

_TRAIN, _USERS, _LATER, _TASK = "train.npz", "users.npy", "later.npz", "task.json"


@dataclass(frozen=True)
class Task:
    """Fit one method with each of some settings, and make lists.

    registry: module whose `METHODS` holds the method.  length: items in a list.
    memory_bytes: what the process may take; 0: no limit.
    """

    registry: str
    method: str
    settings: tuple[Settings, ...]
    seed: int
    length: int
    exclude_seen: bool
    memory_bytes: int = 0


@dataclass(frozen=True)
class Answer:
    """What came of one setting; failure is empty when there are lists.

    chosen: settings that the method chose by itself on later data.
    """

    failure: str = ""
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)


def write_data(folder: Path, train: Csr, users: Array) -> None:
    """Store the training matrix and the users to make lists for, once for all methods."""
    folder.mkdir(parents=True, exist_ok=True)
    sparse.save_npz(folder / _TRAIN, train, compressed=False)
    np.save(folder / _USERS, users, allow_pickle=False)


def write_later(folder: Path, later: Csr) -> None:
    """Store what the users of a validation took later, for methods that choose by themselves.

    later: (N, D) rows as in the training matrix.
    """
    sparse.save_npz(folder / _LATER, later, compressed=False)


def read_later(folder: Path) -> Csr | None:
    """Read what `write_later` stored; None where there is nothing."""
    path = folder / _LATER
    return sparse.csr_array(sparse.load_npz(path)) if path.exists() else None


def read_data(folder: Path) -> tuple[Csr, Array]:
    """Read what `write_data` stored."""
    return (
        sparse.csr_array(sparse.load_npz(folder / _TRAIN)),
        np.load(folder / _USERS, allow_pickle=False),
    )


def write_task(folder: Path, task: Task) -> None:
    """Store a task; the settings become plain JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    values = asdict(task) | {"settings": [dict(one) for one in task.settings]}
    write_text(folder / _TASK, json.dumps(values))


def read_task(folder: Path) -> Task:
    """Read what `write_task` stored."""
    values = json.loads((folder / _TASK).read_text(encoding="utf-8"))
    return Task(**(values | {"settings": tuple(values["settings"])}))


def write_answer(folder: Path, place: int, answer: Answer) -> None:
    """Store the answer to the setting at a place, after its lists: it says that they are whole."""
    write_text(_answer_path(folder, place), json.dumps(asdict(answer), default=str))


def read_answers(folder: Path, n_settings: int) -> list[Answer | None]:
    """Read the answers; None where there is none."""
    paths = [_answer_path(folder, place) for place in range(n_settings)]
    return [
        Answer(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
        for path in paths
    ]


def out_of_memory(memory_bytes: int) -> str:
    """Say that the memory did not suffice."""
    allowed = f"the {memory_bytes / 1e9:g} GB allowed" if memory_bytes else "this machine has"
    return f"needs more memory than {allowed}"


def count_answers(folder: Path) -> int:
    """Return how many settings are done."""
    return len(list(folder.glob("answer-*.json")))


class ListWriter:
    """Lists of users, written block by block: only one block is in memory."""

    def __init__(self, folder: Path, place: int, shape: tuple[int, int]) -> None:
        self._out = lists_path(folder, place).open("wb")
        header = {"descr": "<i4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._out, header)

    def append(self, ids: Array) -> None:
        """Write the lists of the next users."""
        self._out.write(np.ascontiguousarray(ids, dtype="<i4").tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._out.close()


def read_lists(folder: Path, place: int) -> Array:
    """Return the lists of a setting, (users, length), read from the disk as they are used."""
    return np.load(lists_path(folder, place), mmap_mode="r", allow_pickle=False)


def lists_path(folder: Path, place: int) -> Path:
    """Where the lists of the setting at a place are."""
    return folder / f"lists-{place}.npy"


def _answer_path(folder: Path, place: int) -> Path:
    return folder / f"answer-{place}.json"
