"""EASE: the regression of every item on the others, from co-occurrences G (Steck 2019).

    P = (G + ridge g I)^-1,    B = I - P diag(P)^-1,    score = x B,     g: mean diagonal of G

x: the history, where days are known with what was taken long ago weighing less.

Beyond some 4,000 items every item is regressed on its nearest items N alone:

    B_Ny = (G_NN + ridge g I)^-1 G_Ny
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import linalg, sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import with_narrow_indices
from mom_pipeline.core.moments.cooccurrences import (
    Cooccurrences,
    from_steps,
    steps_of,
)
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.ranking.item_matrix import ItemMatrix, last_true, owners
from mom_pipeline.core.ranking.parts import EASE, Histories, added_up
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

# In units of the mean diagonal of G: on parts of the training data of ML-1M 1 is worse by 78 and 20
# by 23 ten-thousandths of nDCG@20, elsewhere within the standard error.
RIDGE = 5.0
# Up to so many items G is inverted, a second on two cores. Of each row so many entries are kept:
# within .5 % of nDCG@20 on three logs.
MAX_INVERTED_ITEMS = 4_000
_ENTRIES = 256
# Otherwise every item is regressed on so many nearest ones; so many items at a time take 64 MB.
_NEAREST = 64
_ITEMS_PER_BLOCK, _SOLVED_PER_BLOCK = 256, 4096


@dataclass(frozen=True)
class Ease:
    """B ~ matrix + 1 rest^T: the largest entries of each row, and column means of the others."""

    name: ClassVar[str] = EASE
    matrix: ItemMatrix  # (D, D), with the digits of half precision
    rest: Array  # (D,), zero where every item is regressed on its nearest ones

    @classmethod
    def from_counts(cls, counts: Cooccurrences, ridge: float = RIDGE) -> Self:
        """Regress every item on the others. ridge: in units of the mean diagonal of G."""
        if ridge <= 0:
            raise InvalidSetting(f"ridge of the EASE part must be above 0, found {ridge}")
        items = np.flatnonzero(counts.item_users)
        if len(items) > MAX_INVERTED_ITEMS:
            B = _local_regressions(counts.matrix(), ridge)
            return cls(ItemMatrix(B), np.zeros(counts.n_items, dtype=np.float32))
        return cls._inverted(counts, items, ridge)

    @classmethod
    def _inverted(cls, counts: Cooccurrences, items: Array, ridge: float) -> Self:
        D, rest = counts.n_items, np.zeros(counts.n_items, dtype=np.float32)
        if not len(items):
            nothing = sparse.csr_array((D, D)).astype(np.float32)
            return cls(ItemMatrix(nothing), rest)
        B = _regressions(counts.among(items), ridge)
        columns = _largest_of_rows(B)
        kept = np.take_along_axis(B, columns, axis=1)
        users = counts.item_users[items].astype(np.float32)
        rest[items] = _mean_of_others(B, columns, kept, users)
        kept -= rest[items][columns]
        indptr = np.zeros(D + 1, dtype=np.int64)
        indptr[items + 1] = columns.shape[1]
        entries = (_rounded(kept.ravel()), items[columns].ravel(), np.cumsum(indptr))
        return cls(ItemMatrix(with_narrow_indices(sparse.csr_array(entries, shape=(D, D)))), rest)

    def with_items(self, n_items: int) -> Self:
        """Return the part among more items, which it says nothing about."""
        return replace(
            self, matrix=self.matrix.with_items(n_items), rest=padded(self.rest, n_items)
        )

    def as_arrays(self) -> dict[str, Array]:
        """Return named arrays to be stored, the same until it is made again: no later items."""
        B = self.matrix.entries
        known = (np.diff(B.indptr) > 0) | (self.rest != 0)
        known[B.indices] = True
        n = last_true(known) + 1
        return {
            "ease_data": B.data.astype(np.float16),
            "ease_steps": steps_of(B.indices, n),
            "ease_indptr": B.indptr[: n + 1],
            "ease_rest": self.rest[:n],
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        data, steps, indptr, rest = (
            arrays[f"ease_{name}"] for name in ("data", "steps", "indptr", "rest")
        )
        B = data.astype(np.float32), from_steps(steps).astype(indptr.dtype), indptr
        entries = sparse.csr_array(B, shape=(len(rest), len(rest)))
        entries.check_format(full_check=True)
        return cls(ItemMatrix(entries), rest)

    def scores(self, rows: Histories) -> Array:
        scores = self.matrix.sums(rows.aged)
        scores += rows.aged.sum(axis=1, dtype=np.float32)[:, None] * self.rest
        return scores

    def at(self, rows: Histories, items: Array) -> Array:
        return added_up(rows.X, self.by_entry(rows, items))

    def by_entry(self, rows: Histories, items: Array) -> Array:
        terms = self.matrix.at(rows.X, items) + self.rest[items][rows.seen[0]]
        terms *= rows.aged.data[:, None]
        return terms


def _regressions(G: Array, ridge: float) -> Array:
    """Return B, (F, F), zero on its diagonal. G: (F, F), written over."""
    np.einsum("ii->i", G)[:] += ridge * np.diag(G).mean()
    # By columns, as LAPACK has them: only then the inverse takes the place of G.
    P = linalg.inv(G.T, overwrite_a=True, check_finite=False, assume_a="pos").T
    P /= -np.diag(P).copy()
    np.fill_diagonal(P, 0.0)
    return P


def _largest_of_rows(B: Array) -> Array:
    """Return the columns of each row's largest entries by absolute value, rising, and its own."""
    n = min(_ENTRIES + 1, len(B))
    columns = np.empty((len(B), n), dtype=np.int64)

    def block(start: int) -> None:
        rows = np.arange(start, min(start + _ITEMS_PER_BLOCK, len(B)))
        sizes = -np.abs(B[rows])
        sizes[np.arange(len(rows)), rows] = -np.inf
        columns[rows] = np.sort(np.argpartition(sizes, n - 1, axis=1)[:, :n], axis=1)

    map_blocks(block, range(0, len(B), _ITEMS_PER_BLOCK))
    return columns


def _mean_of_others(B: Array, columns: Array, kept: Array, users: Array) -> Array:
    """Return the mean of each column's entries that are not kept, by the users of their rows."""
    D, weights = len(B), np.repeat(users, columns.shape[1]).astype(np.float64)
    of_kept = np.bincount(columns.ravel(), weights=weights * kept.ravel(), minlength=D)
    whole, left = users.astype(np.float64) @ B, users.sum(dtype=np.float64)
    left = left - np.bincount(columns.ravel(), weights=weights, minlength=D)
    return np.divide(whole - of_kept, left, out=np.zeros(D), where=left > 0.5)


def _local_regressions(G: Csr, ridge: float) -> Csr:
    """Return B: every item regressed on its nearest ones. G: (D, D)."""
    diagonal, others, nearest = G.diagonal(), ItemMatrix(G), _nearest(G)
    mean = diagonal.sum() / max(np.count_nonzero(diagonal), 1)
    with_some = np.flatnonzero(np.diff(nearest.indptr))
    entries = np.zeros(nearest.nnz, dtype=np.float32)

    def block(start: int) -> None:
        items = with_some[start : start + _SOLVED_PER_BLOCK]
        N = nearest[items]
        own = slice(nearest.indptr[items[0]], nearest.indptr[items[-1] + 1])
        listed, filled = _as_table(N)
        M = np.zeros((*listed.shape, listed.shape[1]), dtype=np.float32)
        M[filled] = others.at(N, listed) * filled[owners(N)]
        pairs = np.zeros(listed.shape, dtype=np.float32)
        pairs[filled] = N.data
        np.einsum("yii->yi", M)[:] += ridge * mean
        entries[own] = np.linalg.solve(M, pairs[:, :, None])[:, :, 0][filled]

    map_blocks(block, range(0, len(with_some), _SOLVED_PER_BLOCK))
    B = sparse.csc_array((_rounded(entries), nearest.indices, nearest.indptr), shape=G.shape)
    return with_narrow_indices(B.tocsr())


def _rounded(entries: Array) -> Array:
    """Return entries as they come back from half precision."""
    return entries.astype(np.float16).astype(np.float32)


def _nearest(G: Csr) -> Csr:
    """Return the largest entries of every row but its own, (D, D), in canonical format."""
    columns, values = [], []
    for y in range(G.shape[0]):
        row = slice(G.indptr[y], G.indptr[y + 1])
        own, data = G.indices[row], G.data[row]
        others = own != y
        own, data = own[others], data[others]
        if len(own) > _NEAREST:
            largest = np.sort(np.argpartition(-data, _NEAREST - 1)[:_NEAREST])
            own, data = own[largest], data[largest]
        columns.append(own)
        values.append(data)
    ends = np.append(0, np.cumsum([len(own) for own in columns]))
    return sparse.csr_array((np.concatenate(values), np.concatenate(columns), ends), shape=G.shape)


def _as_table(N: Csr) -> tuple[Array, Array]:
    """Return the columns of every row, (rows, longest), 0 at its end, and where they are."""
    lengths = np.diff(N.indptr)
    filled = np.arange(lengths.max(initial=1)) < lengths[:, None]
    table = np.zeros(filled.shape, dtype=np.int64)
    table[filled] = N.indices
    return table, filled
