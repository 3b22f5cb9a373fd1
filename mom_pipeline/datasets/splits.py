"""Ready splits in the one-line-per-user format: `user item item ...`, all of them numbers."""

import zlib
from pathlib import Path

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr
from mom_pipeline.datasets.importing import open_text
from mom_pipeline.errors import DatasetError


def read_split(train: Path, test: Path) -> tuple[Csr, Csr]:
    """Training and test matrix, binary, over the users and items of either file by number."""
    (train_users, train_items), (test_users, test_items) = map(_read_pairs, (train, test))
    users, rows = np.unique(np.concatenate([train_users, test_users]), return_inverse=True)
    items, columns = np.unique(np.concatenate([train_items, test_items]), return_inverse=True)
    matrices: list[Csr] = [
        sparse.csr_array((np.ones(len(r)), (r, c)), shape=(len(users), len(items)))
        for r, c in zip(*(np.split(a, [len(train_users)]) for a in (rows, columns)), strict=True)
    ]
    for matrix in matrices:
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
    return matrices[0], matrices[1]


def _read_pairs(path: Path) -> tuple[Array, Array]:
    """Return the user and the item of every pair in one file."""
    try:
        with open_text(path) as file:
            rows = [np.array([int(number) for number in line.split()], np.int64) for line in file]
        if not rows or min(row.min() for row in rows) < 0:
            raise ValueError("no line, or a number below 0")
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; give a file of a ready split") from None
    except (OSError, EOFError, ValueError, OverflowError, zlib.error) as error:
        raise DatasetError(
            f"{path} must hold lines of `user item item ...`, whole numbers from 0 on: {error}"
        ) from error
    users = np.repeat([row[0] for row in rows], [len(row) - 1 for row in rows])
    return users, np.concatenate([row[1:] for row in rows])
