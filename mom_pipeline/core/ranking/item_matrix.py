"""A sparse items x items matrix, whose rows are added up over the items of a history."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from mom_pipeline.core.linear_algebra.eigenpairs import fits_dense
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

# Written out among the items that have entries where at least this share of these occurs, some ten
# times as fast; a larger one than the few matrices of a ranking may be, from the second share on.
_DENSE_SHARE, _LARGE_DENSE_SHARE, _DENSE_BYTES = 0.1, 0.25, 4 * 4
# Sparse rows are added up for a few users in one call: 4 MB of entries stay in a core's cache.
_ENTRIES_AT_A_TIME, _USERS_AT_A_TIME = 500_000, 32
# Single entries are looked up in 4 MB of rows written out: five times as fast as a search.
_PANEL = 1_000_000


@dataclass(frozen=True)
class ItemMatrix:
    """entries: M, (D, D), single precision."""

    entries: Csr

    def sums(self, X: Csr) -> Array:
        """Return sum_h x_h M_hy over the items h of every history, (users, D). X: (users, D)."""
        if self._dense is not None:
            sums = np.zeros(X.shape, dtype=np.float32)
            sums[:, self._items] = X[:, self._items] @ self._dense
            return sums
        before = np.append(0, np.cumsum(np.diff(self.entries.indptr)[X.indices]))[X.indptr]
        blocks = []
        for users in cut(before, _ENTRIES_AT_A_TIME, _USERS_AT_A_TIME):
            bounds = X.indptr[users.start : users.stop + 1]
            entries = slice(bounds[0], bounds[-1])
            stacked = _stacked(self.entries[X.indices[entries]], bounds - bounds[0])
            blocks.append((stacked @ X.data[entries]).reshape(-1, X.shape[1]))
        return np.concatenate(blocks)

    def at(self, X: Csr, items: Array) -> Array:
        """Return M at (item of an entry of X, listed item of its user), (entries, n).

        items: (users, n) positions.
        """
        used, row = np.unique(X.indices, return_inverse=True)
        listed, column = np.unique(items, return_inverse=True)
        column, owner = column.reshape(items.shape), owners(X)
        values = np.empty((X.nnz, items.shape[1]), dtype=self.entries.dtype)
        order = np.argsort(row, kind="stable")
        step = max(1, _PANEL // max(len(listed), 1))
        for start in range(0, len(used), step):
            panel = self.entries[used[start : start + step]][:, listed].toarray()
            own = order[slice(*np.searchsorted(row, (start, start + step), sorter=order))]
            values[own] = panel[row[own, None] - start, column[owner[own]]]
        return values

    def with_items(self, n_items: int) -> "ItemMatrix":
        """Return the matrix among more items, which have no entries."""
        M = self.entries
        indptr = np.pad(M.indptr, (0, n_items - M.shape[0]), mode="edge")
        return ItemMatrix(sparse.csr_array((M.data, M.indices, indptr), shape=(n_items, n_items)))

    @cached_property
    def _items(self) -> Array:
        """The items that have entries, in rows or in columns."""
        some = np.diff(self.entries.indptr) > 0
        some[self.entries.indices] = True
        return np.flatnonzero(some)

    @cached_property
    def _dense(self) -> Array | None:
        """M among the items that have entries, where it is written out."""
        size = len(self._items) ** 2
        share = _DENSE_SHARE if fits_dense(_DENSE_BYTES * size) else _LARGE_DENSE_SHARE
        if not size or self.entries.nnz < share * size:
            return None
        return np.asarray(self.entries[self._items][:, self._items].toarray())


def last_true(values: Array) -> int:
    """Return the position of the last True; -1 where there is none."""
    return int(np.flatnonzero(values)[-1]) if values.any() else -1


def owners(X: Csr) -> Array:
    """Return the row of every entry of X."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _stacked(M: Csr, bounds: Array) -> sparse.csc_array:
    """Return (users D, entries): column e is row e of M, moved down to the D rows of its user.

    M: (entries, D), written to.  bounds: (users + 1,), where the entries of each user begin.
    """
    for user, (start, stop) in enumerate(pairwise(M.indptr[bounds])):
        M.indices[start:stop] += user * M.shape[1]
    shape = ((len(bounds) - 1) * M.shape[1], M.shape[0])
    return sparse.csc_array((M.data, M.indices, M.indptr), shape=shape, copy=False)
