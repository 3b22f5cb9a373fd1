"""A sparse items x items matrix, whose rows are added up over the items of a history."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from mom_pipeline.core.linear_algebra.eigenpairs import fits_dense
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

# Written out in full where at least this share of its entries occurs: some ten times as fast. A
# ranking has a few such matrices, in single precision.
_DENSE_SHARE, _DENSE_BYTES = 0.1, 4 * 4
# Sparse rows are added up for a few users in one call: 4 MB of entries stay in a core's cache.
_ENTRIES_AT_A_TIME, _USERS_AT_A_TIME = 500_000, 32
# Single entries are looked up in 4 MB of rows written out: five times as fast as a search.
_PANEL = 1_000_000


@dataclass(frozen=True)
class ItemMatrix:
    """entries: M, (D, D), single precision.  dense: None to write M out where that is quicker."""

    entries: Csr
    dense: bool | None = None

    def sums(self, X: Csr, weights: Array) -> Array:
        """Return sum_h w_h M_hy over the items h of every history: (columns, users, D).

        X: (users, D).  weights: (entries of X, columns), one result for each column.
        """
        n_columns = weights.shape[1]
        if self._dense is not None and X.shape[0] > 1:
            sums = np.empty((n_columns, *X.shape), dtype=np.float32)
            for column, own in enumerate(weights.T):
                W = sparse.csr_array((own, X.indices, X.indptr), shape=X.shape, copy=False)
                sums[column] = W @ self._dense
            return sums
        before = np.append(0, np.cumsum(np.diff(self.entries.indptr)[X.indices]))[X.indptr]
        blocks = []
        for users in cut(before, _ENTRIES_AT_A_TIME, _USERS_AT_A_TIME):
            bounds = X.indptr[users.start : users.stop + 1]
            entries = slice(bounds[0], bounds[-1])
            stacked = _stacked(self.entries[X.indices[entries]], bounds - bounds[0])
            blocks.append((stacked @ weights[entries]).T.reshape(n_columns, -1, X.shape[1]))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

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

    @property
    def is_dense(self) -> bool:
        """Whether rows are added up from M written out."""
        if self.dense is not None:
            return self.dense
        size = self.entries.shape[0] ** 2
        return fits_dense(_DENSE_BYTES * size) and self.entries.nnz >= _DENSE_SHARE * size

    @cached_property
    def _dense(self) -> Array | None:
        return np.asarray(self.entries.toarray()) if self.is_dense else None


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
