"""The users x items matrix: what it must be, and how two days of it differ."""

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting, TooLittleData
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

# How the components read counts.
RowsName = Literal["binary", "log", "counts"]
# Makes an array of a shape and a type, in memory or elsewhere.
NewArray = Callable[[tuple[int, ...], np.dtype[Any]], Array]
ROWS: tuple[RowsName, ...] = get_args(RowsName)

# Characters of an id: log lines with a longer one are rejected, and the service refuses it.
MAX_ID = 4_096
# Pairs of users and items that are compared at a time.
_PAIRS_PER_BLOCK = 4_000_000
_INT32_MAX = np.iinfo(np.int32).max


def as_interactions(X: Any, *, n_items: int | None = None) -> Csr:
    """A canonical float64 copy, duplicates added up; InvalidInteractions where it is no counts."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InvalidInteractions(f"Complex data not supported: expected counts, found {X.dtype}")
    try:
        csr = sparse.csr_array(X, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise InvalidInteractions(
            f"expected a users x items matrix of numbers, found {type(X).__name__}: {error}"
        ) from error
    if csr.ndim != 2:
        raise InvalidInteractions(
            f"expected a users x items matrix, found shape {csr.shape}. Reshape your data: "
            "X.reshape(1, -1) is one user"
        )
    _check_entries(csr)
    _check_shape(csr, n_items)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return with_narrow_indices(csr)


def one_row(items: Array, counts: Array, n_items: int) -> Csr:
    """Return one user's items, (n,) rising, and their counts as a matrix of one row, (1, D)."""
    ends = np.array([0, len(items)], dtype=items.dtype)
    return sparse.csr_array((counts, items, ends), shape=(1, n_items))


def require_events(X: Csr) -> None:
    """Raise TooLittleData when there is no event."""
    if X.nnz == 0:
        raise TooLittleData(
            f"the interaction matrix ({X.shape[0]} users x {X.shape[1]} items) has no non-zero "
            "entry; a fit needs at least one event"
        )


def require_components(n_components: int, shape: tuple[int, int]) -> None:
    """Raise InvalidSetting unless 1 <= K <= min(N, D)."""
    limit = min(shape)
    if not 1 <= n_components <= limit:
        raise InvalidSetting(
            f"n_components must lie between 1 and min(users, items) = {limit}, "
            f"found {n_components}; lower it or add data"
        )


def with_narrow_indices(csr: Csr) -> Csr:
    """Store positions as int32 where they fit: half the traffic of every sparse product."""
    if csr.indices.dtype == np.int32 or max(csr.nnz, *csr.shape) > _INT32_MAX:
        return csr
    narrow = (csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int32))
    return sparse.csr_array(narrow, shape=csr.shape)


def as_binary(X: Csr) -> Csr:
    """Return X with every stored count replaced by one, sharing its positions."""
    once = copy(X)  # of the object alone: the constructor's checks take longer than one row
    once.data = np.ones(len(X.indices))
    return once


def with_entries(X: Csr, kept: Array) -> Csr:
    """Return X with some of its entries alone. kept: (nnz,) of bool."""
    indptr = np.append(0, np.cumsum(kept))[X.indptr]
    return sparse.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)


def rows_of_entries(X: Csr) -> Array:
    """Return the row of every entry of X, (nnz,)."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def weighted_rows(X: Csr, rows: RowsName) -> Csr:
    """Return X with every entry weighed on its own, sharing the positions of X.

    rows: "binary", min(count, 1), as an aged entry is below 1; "log", log2(1 + count); "counts".
    """
    if rows == "counts":
        return X
    weighted = copy(X)
    weighted.data = np.minimum(X.data, 1.0) if rows == "binary" else np.log2(1.0 + X.data)
    return weighted


def resized(X: Csr, shape: tuple[int, int]) -> Csr:
    """Return X with empty rows and columns at its end, up to `shape`."""
    if X.shape[0] > shape[0] or X.shape[1] > shape[1]:
        raise InvalidInteractions(
            f"a matrix of {X.shape} does not fit into {shape}: positions only ever grow; "
            "rebuild in full"
        )
    indptr = np.pad(X.indptr, (0, shape[0] - X.shape[0]), mode="edge")
    return sparse.csr_array((X.data, X.indices, indptr), shape=shape)


def rows_at(A: Any, users: Array) -> Any:
    """Return rows of an array or of a sparse matrix, empty past its end. users: (n,) positions."""
    n_rows = int(A.shape[0])
    if len(users) == n_rows and np.array_equal(users, np.arange(n_rows)):
        return A
    if not isinstance(A, np.ndarray):
        return resized(A, (max(n_rows, int(users.max(initial=-1)) + 1), A.shape[1]))[users]
    rows = np.zeros((len(users), *A.shape[1:]), dtype=A.dtype)
    inside = users < n_rows
    rows[inside] = A[users[inside]]
    return rows


def changed_rows(before: Csr, now: Csr) -> Array:
    """Positions of users whose rows differ, ascending, read by blocks: rows may lie in a file."""
    before, changed = resized(before, now.shape), [np.empty(0, dtype=np.int64)]
    for users in cut(before.indptr + now.indptr, _PAIRS_PER_BLOCK, now.shape[0]):
        difference = now[users] - before[users]
        difference.eliminate_zeros()
        changed.append(np.flatnonzero(np.diff(difference.indptr)) + users.start)
    return np.concatenate(changed)


def _check_entries(csr: Csr) -> None:
    if not np.isfinite(csr.data).all():
        n = int((~np.isfinite(csr.data)).sum())
        raise InvalidInteractions(
            f"expected finite counts, found {n} NaN or infinite entries; drop those events"
        )
    if csr.nnz and csr.data.min() < 0:
        n = int((csr.data < 0).sum())
        raise InvalidInteractions(
            f"Negative values in data: expected counts of zero or more, found {n} negative "
            f"entries (smallest {csr.data.min():g}); drop cancellations and returns before the fit"
        )


def _check_shape(csr: Csr, n_items: int | None) -> None:
    if 0 in csr.shape:
        raise InvalidInteractions(
            f"expected at least one user and one item, found shape {csr.shape}"
        )
    if n_items is not None and csr.shape[1] != n_items:
        raise InvalidInteractions(
            f"the model knows {n_items} items but the matrix has {csr.shape[1]} columns; "
            "use the item positions of the training matrix"
        )
