"""Whether arrays lie in files, and whether anybody takes the rows of all users into memory."""

import traceback
from mmap import mmap
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

# Where rows are read, compared, added up and written in blocks.
_PAIRS_PER_BLOCK = (
    "mom_pipeline.warehouse.matrix._PAIRS_PER_BLOCK",
    "mom_pipeline.core.interactions._PAIRS_PER_BLOCK",
    "mom_pipeline.core.moments.days._PAIRS_PER_BLOCK",
    "mom_pipeline.core.moments.sums._ENTRIES_PER_BLOCK",
    "mom_pipeline.serving.gate._PAIRS_PER_BLOCK",
)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is a view of a file that is mapped into memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview) and not isinstance(owner, np.memmap):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, np.memmap | mmap)


def in_small_blocks(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    """Let small rows be as many blocks as large ones are; they stay in files of any size."""
    for name in _PAIRS_PER_BLOCK:
        monkeypatch.setattr(name, pairs)
    monkeypatch.setattr("mom_pipeline.engine.shards._USERS_PER_BLOCK", 20)
    monkeypatch.setattr("mom_pipeline.report.data._SAMPLED", 20)


def noted_in_memory(monkeypatch: pytest.MonkeyPatch, n_users: int, n_pairs: int) -> list[str]:
    """Where this process has had so many rows with so many pairs in memory, from now on."""
    noted: list[str] = []

    def put(matrix: Any, data: np.ndarray) -> None:
        matrix.__dict__["data"] = data
        rows = len(getattr(matrix, "indptr", ())) - 1
        if rows >= n_users and len(data) >= n_pairs and not is_mapped(data):
            ours = [f for f in traceback.extract_stack()[:-1] if "mom_pipeline/" in f.filename]
            noted.append(" < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in ours[::-1][:4]))

    monkeypatch.setattr(csr_array, "data", property(lambda m: m.__dict__["data"], put), False)
    return noted
