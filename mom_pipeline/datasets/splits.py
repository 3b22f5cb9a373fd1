"""Ready splits in the one-line-per-user format: `user item item ...`, all of them numbers."""

import zlib
from pathlib import Path

import numpy as np
from scipy import sparse

from mom_pipeline.core.types import Array, Csr
from mom_pipeline.datasets.importing import open_text
from mom_pipeline.errors import DatasetError

_LARGEST = np.iinfo(np.int64).max


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
    users, items = [], []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            numbers = [*map(int, line.split())]
            user, *own = numbers
        except ValueError as error:
            raise DatasetError(
                f"{path}, line {number}: expected `user item item ...` as whole numbers, "
                f"found {line[:60]!r}"
            ) from error
        if min(numbers) < 0:
            raise DatasetError(f"{path}, line {number}: numbers must not be negative")
        if max(numbers) > _LARGEST:
            raise DatasetError(f"{path}, line {number}: numbers must be at most {_LARGEST}")
        users.append(np.full(len(own), user))
        items.append(np.array(own, dtype=np.int64))
    if not users:
        raise DatasetError(f"{path} has no lines; expected `user item item ...`")
    return np.concatenate(users), np.concatenate(items)


def _text(path: Path) -> str:
    try:
        with open_text(path) as file:
            return file.read().decode("utf-8")
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; give a file of a ready split") from None
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be read ({error}); give lines of `user item item ...`"
        ) from error
