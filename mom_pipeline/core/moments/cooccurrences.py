"""Co-occurrences as sums over users, within some bytes.

    G_hy = sum_u n_u^-e,     over the users who have both h and y;  n_u: items of user u

A weight n_u^-e is counted in whole units, so that a sum is the same in whatever order it is made:
all users at once, shards, or day by day with old rows subtracted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import (
    resized,
    rows_of_entries,
    with_entries,
    with_narrow_indices,
)
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.threads import cut, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64, SentPlain

# A weight of 1: 2^27 users with one item each still fit into 64 bits.
_UNITS = 2**36
# Of an entry: 12 for its item and its sum, 16 for both directions in the ranking, 20 meanwhile.
_BYTES_PER_PAIR = 48
# Bytes of a model's entries: beyond, those of the least popular items are not counted.
MAX_PAIR_BYTES = 2**30
# Entries that one thread counts at a time, some 50 MB, unless one item has more.
_PAIRS_PER_SLAB = 2_000_000


@dataclass(frozen=True)
class Cooccurrences(SentPlain):
    """G of some users."""

    upper: Csr  # (D, D) of int64, canonical: G_hy in units, for h <= y
    item_users: Array  # (D,) users of each item
    user_exponent: float  # e
    uncounted: Array  # positions, rising, of items without entries; see `rare_items`

    @classmethod
    def from_rows(cls, X: Csr, user_exponent: float, *, uncounted: Array | tuple[()] = ()) -> Self:
        """Count over the users of X, (N, D), whose counts are read as ones."""
        excluded = np.asarray(uncounted, dtype=np.int64)
        item_users = np.bincount(X.indices, minlength=X.shape[1]).astype(np.int64)
        n = np.maximum(np.diff(X.indptr), 1).astype(np.float64)
        weights = np.rint(_UNITS * n**-user_exponent).astype(np.int64)
        if len(excluded):
            X = with_entries(X, ~np.isin(X.indices, excluded))
        return cls(_counted(X, weights), item_users, user_exponent, excluded)

    def update(self, removed: Csr, added: Csr) -> Self:
        """Return the sums without some rows and with others, exact. Both: (any, D) or more D."""
        return self.after(self.change(removed, added))

    def change(self, removed: Csr, added: Csr) -> Self:
        """Return what `added` has beyond `removed`; some of it may be negative."""
        gained, lost = (
            self.from_rows(rows, self.user_exponent, uncounted=self.uncounted)
            for rows in (added, removed)
        )
        return gained - lost

    def after(self, change: Self) -> Self:
        """Return the sums after a change; InvalidInteractions where one falls below zero."""
        updated = self + change
        if min(updated.units.min(initial=0), updated.item_users.min(initial=0)) < 0:
            raise InvalidInteractions(
                "more co-occurrences were removed than there are; remove rows as they were when "
                "they were added"
            )
        return updated

    def nothing(self) -> Self:
        """Return sums over nobody, among the same items."""
        none = sparse.csr_array(self.upper.shape, dtype=np.int64)
        return replace(self, upper=none, item_users=np.zeros_like(self.item_users))

    def __add__(self, other: Self) -> Self:
        n_items = max(self.n_items, other.n_items)
        ours, theirs = (resized(each.upper, (n_items, n_items)) for each in (self, other))
        item_users = padded(self.item_users, n_items) + padded(other.item_users, n_items)
        # An entry whose sum is 0 is dropped from the sum of two canonical matrices.
        return replace(self, upper=sparse.csr_array(ours + theirs), item_users=item_users)

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
        """The stored entries of G, in units."""
        return np.asarray(self.upper.data)

    def matrix(self) -> Csr:
        """Return G in single precision, (D, D), in canonical format."""
        return self._matrix

    @cached_property
    def _matrix(self) -> Csr:
        starts, items, shape = self.upper.indptr, self.upper.indices, self.upper.shape
        values = np.empty(len(items), dtype=np.float32)
        np.divide(self.units, _UNITS, out=values, casting="unsafe")
        taken = np.flatnonzero(np.diff(starts))
        first = starts[taken]  # of its row: on the diagonal, which is counted once, or beyond it
        beyond = values.copy()
        beyond[first[items[first] == taken]] = 0.0
        above = sparse.csr_array((values, items, starts), shape=shape)
        below = sparse.csr_array(sparse.csr_array((beyond, items, starts), shape=shape).T)
        return with_narrow_indices(sparse.csr_array(above + below))

    def among(self, items: Array) -> Array:
        """Return G among some items in single precision, (F, F). items: positions, rising."""
        G = self.upper[items][:, items].toarray() / _UNITS
        return np.asarray(G + np.triu(G, 1).T, dtype=np.float32)

    def as_arrays(self) -> dict[str, Array]:
        """Return named arrays to be stored, the items by their steps, which deflate well."""
        return {
            "pair_starts": self.upper.indptr,
            "pair_steps": steps_of(self.upper.indices, self.n_items),
            "pair_units": self.units,
            "pair_item_users": self.item_users,
            "pair_user_exponent": np.array(self.user_exponent),
            "pair_uncounted": self.uncounted,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Read what `as_arrays` named; ValueError where it does not fit together."""
        starts, items = arrays["pair_starts"], from_steps(arrays["pair_steps"])
        units, item_users = arrays["pair_units"], arrays["pair_item_users"]
        entries = (units, items.astype(np.int32), starts)
        upper = sparse.csr_array(entries, shape=(len(item_users), len(item_users)))
        upper.check_format(full_check=True)
        taken = np.flatnonzero(np.diff(starts))
        if not upper.has_canonical_format or (items[starts[taken]] < taken).any():
            raise ValueError("the items of the pairs are not in order")
        exponent = float(arrays["pair_user_exponent"])
        return cls(with_narrow_indices(upper), item_users, exponent, arrays["pair_uncounted"])


def most_pairs(max_bytes: int) -> int:
    """Return how many entries fit into some bytes."""
    return max_bytes // _BYTES_PER_PAIR


def count_cooccurrences(
    users: Users, user_exponent: float, max_bytes: int = MAX_PAIR_BYTES
) -> Cooccurrences:
    """Count the co-occurrences of as many popular items as fit into some bytes."""
    return users.add_up(partial(_cooccurrences, user_exponent, rare_items(users, max_bytes)))


def rare_items(users: Users, max_bytes: int) -> Array:
    """Return the least popular items, positions, rising, without which G fits into some bytes.

    Exact, and the same over any shards: distinct pairs are counted a run of items at a time, the
    most popular first, of which each run has no more than fit.
    """
    D, most = users.shape[1], most_pairs(max_bytes)
    if min(users.add_up(_n_pairs), D * (D + 1) / 2) <= most:
        return np.empty(0, dtype=np.int64)
    by_popularity = np.argsort(-users.add_up(_item_users), kind="stable")
    rank = np.empty(D, dtype=np.int32)
    rank[by_popularity] = np.arange(D, dtype=np.int32)
    bounds = np.minimum(users.add_up(partial(_pairs_by_rank, rank)), np.arange(1, D + 1))
    start, before = 0, 0
    while start < D:
        run = max(int(np.searchsorted(np.cumsum(bounds[start:]), most, side="right")), 1)
        pairs = users.add_up(partial(_pairs_of, rank, slice(start, start + run)))
        in_all = before + np.cumsum(np.diff(pairs.indptr))
        kept = int(np.searchsorted(in_all, most, side="right"))
        if kept < run:
            return np.sort(by_popularity[start + kept :])
        start, before = start + run, int(in_all[-1])
    return np.empty(0, dtype=np.int64)


# Passes over users. They are functions of a module, so that they can be sent to where the rows are.


def _cooccurrences(user_exponent: float, uncounted: Array, rows: UserRows) -> Cooccurrences:
    return Cooccurrences.from_rows(rows.X, user_exponent, uncounted=uncounted)


def _n_pairs(rows: UserRows) -> float:
    """Return the pairs of items of each user, an item with itself among them, summed over users."""
    sizes = np.diff(rows.X.indptr).astype(np.float64)
    return float((sizes * (sizes + 1)).sum() / 2)


def _item_users(rows: UserRows) -> Array:
    return np.bincount(rows.X.indices, minlength=rows.X.shape[1])


def _pairs_by_rank(rank: Array, rows: UserRows) -> Float64:
    """Return with how many items up to itself an item goes, by rank, summed over users, (D,)."""
    X = _by_rank(rows.X, rank)
    ordinals = np.arange(X.nnz) - X.indptr[rows_of_entries(X)] + 1
    return np.bincount(X.indices, weights=ordinals, minlength=X.shape[1]).astype(np.float64)


def _pairs_of(rank: Array, items: slice, rows: UserRows) -> Csr:
    """Return whether some items go with each item of no larger rank, (items, D) of bool."""
    X = _by_rank(rows.X, rank)
    columns = X.tocsc()

    def slab(own: slice) -> Csr:
        both = sparse.csr_array(columns[:, own].T @ X[:, : own.stop])
        both = resized(both, (both.shape[0], X.shape[1]))
        return with_entries(both, both.indices <= own.start + rows_of_entries(both))

    slabs = [
        slice(max(own.start, items.start), min(own.stop, items.stop))
        for own in _pair_slabs(X)
        if own.stop > items.start and own.start < items.stop
    ]
    return sparse.csr_array(sparse.vstack(map_blocks(slab, slabs), format="csr"))


def _by_rank(X: Csr, rank: Array) -> Csr:
    """Return whether each user has the item of each rank, (N, D)."""
    taken = np.ones(X.nnz, dtype=bool)  # not the counts of X: they would be sorted in place
    by_rank = sparse.csr_array((taken, rank[X.indices], X.indptr), shape=X.shape)
    by_rank.sort_indices()
    return by_rank


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
        return with_entries(by_first, both.indices >= first)

    slabs = map_blocks(slab, _pair_slabs(X))
    if not slabs:
        return sparse.csr_array((D, D), dtype=np.int64)
    return with_narrow_indices(sparse.csr_array(sparse.vstack(slabs, format="csr")))


def _pair_slabs(X: Csr) -> list[slice]:
    """Cut the items so that each slab has some entries at most, or is one item."""
    lengths = np.diff(X.indptr)
    others = np.bincount(X.indices, weights=np.repeat(lengths, lengths), minlength=X.shape[1])
    pairs_before = np.append(0, np.cumsum(np.minimum(others, X.shape[1])))
    return cut(pairs_before, _PAIRS_PER_SLAB, X.shape[1])


def steps_of(items: Array, n_items: int) -> Array:
    """Return the steps from item to item, modulo the narrowest type: small where items rise."""
    narrow = np.min_scalar_type(max(n_items, 1))
    return np.diff(items.astype(narrow), prepend=narrow.type(0))


def from_steps(steps: Array) -> Array:
    """Return the items whose steps `steps_of` gave, in their type."""
    return np.cumsum(steps, dtype=steps.dtype)
