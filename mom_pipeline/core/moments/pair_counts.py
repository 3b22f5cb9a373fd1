"""Pairs as sums over users: how often two items were taken by the same user.

    G_hy = sum_u n_u^-e,     over the users who took both h and y;  n_u: items of user u

is the second moment of histories as sets: e = 1 is that of the balanced estimator, at e = 1/2 the
pairs of busy users count for more. A weight n_u^-e is counted in whole units, so that a sum is the
same in whatever order it is made: all users at once, shards, or day by day with old rows taken
away. A pair that nobody has any more is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import grown, with_narrow_indices
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.threads import cut, map_blocks
from mom_pipeline.core.types import Array, Csr

# A weight of 1. The pairs of 2^27 users with one item each still fit into 64 bits.
_UNITS = 2**36
# The names under which pairs are stored.
PAIR_ARRAYS = (
    "pair_starts",
    "pair_steps",
    "pair_units",
    "pair_item_users",
    "pair_user_exponent",
    "pair_uncounted",
)
# Pairs that one thread counts at a time, some 50 MB, unless one item has more.
_PAIRS_PER_SLAB = 2_000_000


@dataclass(frozen=True)
class PairCounts:
    """The pairs of some users.

    upper: (D, D) of int64, canonical: G_hy in units, for h <= y.
    item_users: (D,) users of each item.  user_exponent: e.
    uncounted: positions, rising, of items whose pairs are left out; see `counting.rare_items`.
    """

    upper: Csr
    item_users: Array
    user_exponent: float
    uncounted: Array

    @classmethod
    def from_rows(cls, X: Csr, user_exponent: float, *, uncounted: Array | tuple[()] = ()) -> Self:
        """Count the pairs of every user of X, (N, D); counts in X are read as ones."""
        left_out = np.asarray(uncounted, dtype=np.int64)
        item_users = np.bincount(X.indices, minlength=X.shape[1]).astype(np.int64)
        n = np.maximum(np.diff(X.indptr), 1).astype(np.float64)
        weights = np.rint(_UNITS * n**-user_exponent).astype(np.int64)
        upper = _counted(_without_items(X, left_out), weights)
        return cls(upper, item_users, user_exponent, left_out)

    def update(self, removed: Csr, added: Csr) -> Self:
        """Return the pairs after some rows were taken away and others added; exact.

        removed, added: (any, D), with D at least that of these pairs.
        """
        return self.after(self.change(removed, added))

    def change(self, removed: Csr, added: Csr) -> Self:
        """Return what `added` has of these pairs beyond `removed`; some of it may be negative."""
        return self.counted_alike(added) - self.counted_alike(removed)

    def counted_alike(self, X: Csr) -> Self:
        """Return the pairs of other rows, counted as these are. X: (N, D)."""
        return type(self).from_rows(X, self.user_exponent, uncounted=self.uncounted)

    def after(self, change: Self) -> Self:
        """Return the pairs after a change among the same or more items.

        Raises InvalidInteractions when more is taken away than there is.
        """
        updated = self + change
        if min(updated.units.min(initial=0), updated.item_users.min(initial=0)) < 0:
            raise InvalidInteractions(
                "more users of a pair were removed than there are; remove rows as they were when "
                "they were added"
            )
        return updated

    def nothing(self) -> Self:
        """Return no pairs, among the same items."""
        none = sparse.csr_array(self.upper.shape, dtype=np.int64)
        return replace(self, upper=none, item_users=np.zeros_like(self.item_users))

    def among_first(self, n_items: int) -> Self:
        """Return the pairs among the first items."""
        upper = sparse.csr_array(self.upper[:n_items, :n_items])
        return replace(self, upper=upper, item_users=self.item_users[:n_items])

    def __add__(self, other: Self) -> Self:
        n_items = max(self.n_items, other.n_items)
        ours, theirs = (_canonical(grown(p.upper, (n_items, n_items))) for p in (self, other))
        item_users = padded(self.item_users, n_items) + padded(other.item_users, n_items)
        # A pair whose sum is 0 is left out of the sum of two canonical matrices.
        return replace(
            self, upper=_canonical(sparse.csr_array(ours + theirs)), item_users=item_users
        )

    def __sub__(self, other: Self) -> Self:
        return self + replace(other, upper=-other.upper, item_users=-other.item_users)

    @property
    def n_items(self) -> int:
        return len(self.item_users)

    @property
    def n_pairs(self) -> int:
        return int(self.upper.nnz)

    @property
    def units(self) -> Array:
        """G of every pair, in units."""
        return np.asarray(self.upper.data)

    def matrix(self) -> Csr:
        """Return G in single precision, (D, D), in canonical format."""
        upper, shape = self.upper, self.upper.shape
        values = np.divide(
            upper.data, _UNITS, out=np.empty(upper.nnz, np.float32), casting="unsafe"
        )
        beyond = values.copy()
        beyond[self._diagonal] = 0.0  # counted once
        above = sparse.csr_array((values, upper.indices, upper.indptr), shape=shape)
        below = sparse.csr_array((beyond, upper.indices, upper.indptr), shape=shape).T
        both = _canonical(above) + _canonical(sparse.csr_array(below))
        return with_narrow_indices(sparse.csr_array(both))

    def among(self, items: Array) -> Array:
        """Return G among some items in single precision, (F, F). items: positions, rising."""
        G = self.upper[items][:, items].toarray() / _UNITS
        return np.asarray(G + np.triu(G, 1).T, dtype=np.float32)

    def as_arrays(self) -> dict[str, Array]:
        """Return all as named arrays, to be stored; `from_arrays` reads them back.

        The items by their steps, which deflate well.
        """
        arrays = (
            self.upper.indptr,
            steps_of(self.upper.indices, self.n_items),
            self.units,
            self.item_users,
            np.array(self.user_exponent),
            self.uncounted,
        )
        return dict(zip(PAIR_ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the pairs that `as_arrays` named; ValueError where they do not fit together."""
        starts, items = arrays["pair_starts"], from_steps(arrays["pair_steps"])
        units, item_users = arrays["pair_units"], arrays["pair_item_users"]
        D, n_pairs = len(item_users), np.diff(starts)
        if (
            len(starts) != D + 1
            or (n_pairs < 0).any()
            or not starts[0] == 0 <= starts[-1] == len(items) == len(units)
        ):
            raise ValueError("the items and sums of the pairs do not fit together")
        taken = np.flatnonzero(n_pairs)
        first, last = items[starts[taken]], items[starts[taken + 1] - 1]
        rising = items[1:] > items[:-1]
        rising[starts[taken[1:]] - 1] = True  # from one item's pairs to the next one's
        if (first < taken).any() or (last >= D).any() or not rising.all():
            raise ValueError("the items of the pairs are not in order")
        upper = sparse.csr_array((units, items.astype(np.int32), starts), shape=(D, D))
        exponent = float(arrays["pair_user_exponent"])
        upper = _canonical(with_narrow_indices(upper))
        return cls(upper, item_users, exponent, arrays["pair_uncounted"])

    @property
    def _diagonal(self) -> Array:
        """Where the pairs of items with themselves stand: the first of their rows."""
        starts, indices = self.upper.indptr, self.upper.indices
        rows = np.flatnonzero(np.diff(starts))
        return starts[rows][indices[starts[rows]] == rows]


def _counted(X: Csr, weights: Array) -> Csr:
    """Return the sums of the weights of the users of every pair of X, (D, D), h <= y."""
    columns, D = X.tocsc(), X.shape[1]
    users = columns.T
    users.data = np.ones(columns.nnz, dtype=np.int64)

    def slab(items: slice) -> Csr:
        own = sparse.csc_array(columns[:, items])
        own.data = weights[own.indices]
        both = (users[items.start :] @ own.tocsr()).tocsc()  # (items from here on, these items)
        first = np.repeat(np.arange(both.shape[1]), np.diff(both.indptr))
        seconds = (both.data, both.indices + items.start, both.indptr)
        by_first = sparse.csr_array(seconds, shape=(both.shape[1], D))
        return _entries(by_first, both.indices >= first)

    slabs = map_blocks(slab, pair_slabs(X))
    if not slabs:
        return sparse.csr_array((D, D), dtype=np.int64)
    return _canonical(with_narrow_indices(sparse.csr_array(sparse.vstack(slabs, format="csr"))))


def pair_slabs(X: Csr) -> list[slice]:
    """Cut the items so that each slab of them can have some pairs at most, or is one item."""
    lengths = np.diff(X.indptr)
    others = np.bincount(X.indices, weights=np.repeat(lengths, lengths), minlength=X.shape[1])
    pairs_before = np.append(0, np.cumsum(np.minimum(others, X.shape[1])))
    return cut(pairs_before, _PAIRS_PER_SLAB, X.shape[1])


def _without_items(X: Csr, items: Array) -> Csr:
    """Return X without the entries of some items."""
    if not len(items):
        return X
    wanted = np.ones(X.shape[1], dtype=bool)
    wanted[items] = False
    return _entries(X, wanted[X.indices])


def _entries(X: Csr, kept: Array) -> Csr:
    """Return X with some of its entries. kept: (nnz,) of bool."""
    indptr = np.append(0, np.cumsum(kept))[X.indptr]
    return sparse.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)


def _canonical(X: Csr) -> Csr:
    """Say of a matrix in canonical format that it is: scipy adds two of these in one pass."""
    X.has_canonical_format = True
    return X


def steps_of(items: Array, n_items: int) -> Array:
    """Return the steps from item to item: small numbers, that deflate well, where items rise.

    Modulo the size of the narrowest type for the items; `from_steps` goes back.
    """
    narrow = np.min_scalar_type(max(n_items, 1))
    return np.diff(items.astype(narrow), prepend=narrow.type(0))


def from_steps(steps: Array) -> Array:
    """Return the items whose steps `steps_of` gave, in their type."""
    return np.cumsum(steps, dtype=steps.dtype)
