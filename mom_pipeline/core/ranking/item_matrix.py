"""A sparse items x items matrix, whose rows are added up over the items of a history."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from mom_pipeline.core.interactions import with_entries
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

# A row that has at least this share of the items is written out: twice as fast, or more.
_DENSE_SHARE = 0.25
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
        items, written_out, dense = self._dense
        rest = with_entries(X, ~written_out[X.indices])
        before = np.append(0, np.cumsum(np.diff(self.entries.indptr)[rest.indices]))[rest.indptr]
        sums = np.empty(X.shape, dtype=np.float32)
        for users in cut(before, _ENTRIES_AT_A_TIME, _USERS_AT_A_TIME):
            bounds = rest.indptr[users.start : users.stop + 1]
            entries = slice(bounds[0], bounds[-1])
            stacked = _stacked(self.entries[rest.indices[entries]], bounds - bounds[0])
            sums[users] = (stacked @ rest.data[entries]).reshape(-1, X.shape[1])
        if len(dense):
            sums[:, items] += X[:, written_out] @ dense
        return sums

    def at(self, X: Csr, items: Array) -> Array:
        """M at (item of an entry of X, item (users, n) listed for its user), (entries, n)."""
        used, row = _distinct(X.indices, self.entries.shape[0])
        listed, column = _distinct(items, self.entries.shape[1])
        owner = owners(X)
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
    def _dense(self) -> tuple[Array, Array, Array]:
        """The items that have entries, which rows are written out, (D,), and these rows."""
        lengths = np.diff(self.entries.indptr)
        some = lengths > 0
        some[self.entries.indices] = True
        items = np.flatnonzero(some)
        written_out = some & (lengths >= _DENSE_SHARE * len(items))
        return items, written_out, self.entries[written_out][:, items].toarray()


def last_true(values: Array) -> int:
    """Return the position of the last True; -1 where there is none."""
    return int(np.flatnonzero(values)[-1]) if values.any() else -1


def _distinct(positions: Array, n: int) -> tuple[Array, Array]:
    """Return the distinct ones of some positions below n, rising, and which of these each is."""
    there = np.zeros(n, dtype=bool)
    there[positions] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[positions]


def owners(X: Csr) -> Array:
    """Return the row of every entry of X."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _stacked(M: Csr, bounds: Array) -> sparse.csc_array:
    """(users D, entries): row e of M (entries, D), moved to its user's D rows; M is written to."""
    for user, (start, stop) in enumerate(pairwise(M.indptr[bounds])):
        M.indices[start:stop] += user * M.shape[1]
    shape = ((len(bounds) - 1) * M.shape[1], M.shape[0])
    return sparse.csc_array((M.data, M.indices, M.indptr), shape=shape, copy=False)
