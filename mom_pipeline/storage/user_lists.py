"""Ready splits in the one-line-per-user format: `user item item ...`, positions as numbers."""

import gzip
from pathlib import Path

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr
from mom_pipeline.storage.errors import DatasetError


def read_split(train: Path, test: Path) -> tuple[Csr, Csr]:
    """Return the training and the test matrix over the same users and items, binary."""
    pairs = [_read_pairs(path) for path in (train, test)]
    n_users, n_items = (int(max(p[axis].max(initial=-1) for p in pairs)) + 1 for axis in (0, 1))
    matrices: list[Csr] = [
        sparse.csr_array((np.ones(len(users)), (users, items)), shape=(n_users, n_items))
        for users, items in pairs
    ]
    for matrix in matrices:
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
    return matrices[0], matrices[1]


def _read_pairs(path: Path) -> tuple[Array, Array]:
    """Return the user and the item position of every pair in one file."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist; give the folder with the split's files")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = file.read().splitlines()
    users, items = [], []
    for number, line in enumerate(lines, start=1):
        try:
            user, *own = map(int, line.split())
        except ValueError as error:
            raise DatasetError(
                f"{path}, line {number}: expected `user item item ...` as whole numbers, "
                f"found {line[:60]!r}"
            ) from error
        if user < 0 or min(own, default=0) < 0:
            raise DatasetError(f"{path}, line {number}: positions must not be negative")
        users.append(np.full(len(own), user))
        items.append(np.array(own, dtype=np.int64))
    if not users:
        raise DatasetError(f"{path} has no lines; expected `user item item ...`")
    return np.concatenate(users), np.concatenate(items)
