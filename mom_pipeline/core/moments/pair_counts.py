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
from mom_pipeline.core.interactions import with_narrow_indices
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.threads import cut, map_blocks
from mom_pipeline.core.types import Array, Csr

# A weight of 1. The pairs of 2^27 users with one item each still fit into 64 bits.
_UNITS = 2**36
# A pair is named by one number: its first item times 2^32, plus the second.
_SECOND = 2**32
# The names under which pairs are stored.
PAIR_ARRAYS = (
    "pair_starts",
    "pair_steps",
    "pair_high",
    "pair_low",
    "pair_item_users",
    "pair_user_exponent",
    "pair_uncounted",
)
# Pairs that one thread counts at a time, some 50 MB, unless one item has more.
_PAIRS_PER_SLAB = 2_000_000


@dataclass(frozen=True)
class PairCounts:
    """The pairs of some users.

    names: (pairs,) rising, h 2^32 + y of the items h <= y.  units: (pairs,), G in units.
    item_users: (D,) users of each item.  user_exponent: e.
    uncounted: positions, rising, of items whose pairs are left out; see `counting.rare_items`.
    """

    names: Array
    units: Array
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
        names, units = _counted(_without_items(X, left_out), weights)
        return cls(names, units, item_users, user_exponent, left_out)

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

    def n_pairs_after(self, change: Self) -> int:
        """Return how many pairs there are after a change."""
        at, known = _looked_up(self.names, change.names)
        gone = (self.units[at[known]] + change.units[known] == 0).sum()
        return int(len(self.names) + len(change.names) - known.sum() - gone)

    def nothing(self) -> Self:
        """Return no pairs, among the same items."""
        none = np.empty(0, dtype=np.int64)
        return replace(self, names=none, units=none, item_users=np.zeros_like(self.item_users))

    def __add__(self, other: Self) -> Self:
        names, units = _merged(self.names, self.units, other.names, other.units)
        n_items = max(self.n_items, other.n_items)
        item_users = padded(self.item_users, n_items) + padded(other.item_users, n_items)
        return replace(self, names=names, units=units, item_users=item_users)

    def __sub__(self, other: Self) -> Self:
        return self + replace(other, units=-other.units, item_users=-other.item_users)

    @property
    def n_items(self) -> int:
        return len(self.item_users)

    def matrix(self) -> Csr:
        """Return G in single precision, (D, D), in canonical format."""
        D, n = self.n_items, len(self.names)
        first, second = items_of(self.names)
        values = np.divide(self.units, _UNITS, out=np.empty(n, np.float32), casting="unsafe")
        upper = sparse.csr_array((values, second, _row_ends(first, D)), shape=(D, D))
        off = second > first
        strict = (values[off], second[off], _row_ends(first[off], D))
        lower = sparse.csr_array(sparse.csr_array(strict, shape=(D, D)).T)
        upper.has_canonical_format = lower.has_canonical_format = True  # both are: add in one pass
        return with_narrow_indices(sparse.csr_array(upper + lower))

    def among(self, items: Array) -> Array:
        """Return G among some items in single precision, (F, F). items: positions, rising."""
        position = np.full(self.n_items, -1)
        position[items] = np.arange(len(items))
        first, second = (position[side] for side in items_of(self.names))
        both = (first >= 0) & (second >= 0)
        G = np.zeros((len(items), len(items)), dtype=np.float32)
        values = self.units[both] / _UNITS
        G[first[both], second[both]] = G[second[both], first[both]] = values
        return G

    def as_arrays(self) -> dict[str, Array]:
        """Return all as named arrays, to be stored; `from_arrays` reads them back.

        Half of the bytes: the first item once for all of its pairs, sums in two parts.
        """
        first, second = items_of(self.names)
        high, low = (np.empty(len(self.units), dtype) for dtype in (np.int32, np.uint32))
        np.right_shift(self.units, 32, out=high, casting="unsafe")
        np.bitwise_and(self.units, _SECOND - 1, out=low, casting="unsafe")
        arrays = (
            np.searchsorted(first, np.arange(self.n_items + 1)),
            steps_of(second, self.n_items),
            high.astype(np.result_type(*map(np.min_scalar_type, _range_of(high)))),
            low,
            self.item_users,
            np.array(self.user_exponent),
            self.uncounted,
        )
        return dict(zip(PAIR_ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the pairs that `as_arrays` named; ValueError where they do not fit together."""
        starts, items = arrays["pair_starts"], from_steps(arrays["pair_steps"])
        high, low = arrays["pair_high"], arrays["pair_low"]
        item_users, uncounted = arrays["pair_item_users"], arrays["pair_uncounted"]
        D, n_pairs = len(item_users), np.diff(starts)
        if (
            len(starts) != D + 1
            or (n_pairs < 0).any()
            or not starts[0] == 0 <= starts[-1] == len(items) == len(high) == len(low)
        ):
            raise ValueError("the items and sums of the pairs do not fit together")
        names = np.repeat(np.arange(D, dtype=np.int64) * _SECOND, n_pairs)
        names += items
        taken = np.flatnonzero(n_pairs)
        outside = (items[starts[taken]] < taken) | (items[starts[taken + 1] - 1] >= D)
        if outside.any() or (names[1:] <= names[:-1]).any():
            raise ValueError("the items of the pairs are not in order")
        units = high.astype(np.int64)
        units <<= 32
        units += low
        return cls(names, units, item_users, float(arrays["pair_user_exponent"]), uncounted)


def pair_names(X: Csr, items: slice) -> Array:
    """Return the names y 2^32 + h of all pairs h <= y with y among some items, rising."""
    columns = X.tocsc()
    users = sparse.csr_array(columns.T)

    def slab(own: slice) -> Array:
        both = (users[: own.stop] @ columns[:, own].tocsr()).tocsc()  # (items up to here, these)
        second = np.repeat(np.arange(own.start, own.stop), np.diff(both.indptr))
        first = both.indices
        once = first <= second
        return np.sort(second[once].astype(np.int64) * _SECOND + first[once])

    slabs = [
        slice(max(own.start, items.start), min(own.stop, items.stop))
        for own in _slabs(X)
        if own.stop > items.start and own.start < items.stop
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *map_blocks(slab, slabs)])


def _counted(X: Csr, weights: Array) -> tuple[Array, Array]:
    """Return the names of the pairs of X, rising, and the sums of the weights of their users."""
    columns = X.tocsc()
    users = columns.T
    users.data = np.ones(columns.nnz, dtype=np.int64)

    def slab(items: slice) -> tuple[Array, Array]:
        own = sparse.csc_array(columns[:, items])
        own.data = weights[own.indices]
        both = (users[items.start :] @ own.tocsr()).tocsc()  # (items from here on, these items)
        first = np.repeat(np.arange(both.shape[1]), np.diff(both.indptr))
        once = both.indices >= first
        first, second = first[once] + items.start, both.indices[once] + items.start
        return first.astype(np.int64) * _SECOND + second, both.data[once]

    slabs = map_blocks(slab, _slabs(X))
    names, units = ([own[side] for own in slabs] for side in (0, 1))
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *names]), np.concatenate([empty, *units])


def _slabs(X: Csr) -> list[slice]:
    """Cut the items so that each slab of them can have some pairs at most, or is one item."""
    lengths = np.diff(X.indptr)
    others = np.bincount(X.indices, weights=np.repeat(lengths, lengths), minlength=X.shape[1])
    pairs_before = np.append(0, np.cumsum(np.minimum(others, X.shape[1])))
    return cut(pairs_before, _PAIRS_PER_SLAB, X.shape[1])


def _merged(names: Array, units: Array, others: Array, more: Array) -> tuple[Array, Array]:
    """Add sums under the same names; a sum of 0 goes. Both names rise, without repeats."""
    if not len(others):
        return names, units
    at, known = _looked_up(names, others)
    units = units.copy()
    units[at[known]] += more[known]
    names = np.insert(names, at[~known], others[~known])
    units = np.insert(units, at[~known], more[~known])
    left = units != 0
    return (names, units) if left.all() else (names[left], units[left])


def _looked_up(names: Array, others: Array) -> tuple[Array, Array]:
    """Return where other names are or would be, and which of them are there. Both rise."""
    at = np.searchsorted(names, others)
    known = at < len(names)
    known[known] = names[at[known]] == others[known]
    return at, known


def _without_items(X: Csr, items: Array) -> Csr:
    """Return X without the entries of some items."""
    if not len(items):
        return X
    wanted = np.ones(X.shape[1], dtype=bool)
    wanted[items] = False
    kept = wanted[X.indices]
    indptr = np.append(0, np.cumsum(kept))[X.indptr]
    return sparse.csr_array((X.data[kept], X.indices[kept], indptr), shape=X.shape)


def _range_of(values: Array) -> tuple[int, int]:
    """Return the smallest value or -1, and the largest or 0."""
    return int(values.min(initial=-1)), int(values.max(initial=0))


def items_of(names: Array) -> tuple[Array, Array]:
    """Return both items of every pair, in 32 bits."""
    first, second = (np.empty(len(names), np.int32) for _ in range(2))
    np.right_shift(names, 32, out=first, casting="unsafe")
    np.bitwise_and(names, _SECOND - 1, out=second, casting="unsafe")
    return first, second


def steps_of(items: Array, n_items: int) -> Array:
    """Return the steps from item to item: small numbers, that deflate well, where items rise.

    Modulo the size of the narrowest type for the items; `from_steps` goes back.
    """
    narrow = np.min_scalar_type(max(n_items, 1))
    return np.diff(items.astype(narrow), prepend=narrow.type(0))


def from_steps(steps: Array) -> Array:
    """Return the items whose steps `steps_of` gave, in their type."""
    return np.cumsum(steps, dtype=steps.dtype)


def _row_ends(rows: Array, n_rows: int) -> Array:
    """Return where each row's entries begin and the last one's end. rows: rising."""
    ends = np.append(0, np.cumsum(np.bincount(rows, minlength=n_rows)))
    return ends.astype(np.int32 if len(rows) < 2**30 else np.int64)
