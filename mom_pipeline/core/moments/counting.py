"""The pairs of all users, within some bytes: beyond, the least popular items are left out."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.moments.pair_counts import PairCounts, pair_slabs
from mom_pipeline.core.moments.users import PairsPass, UserRows, Users
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Bytes that a pair takes: 12 for its item and its sum, 16 for both of its directions in the
# ranking, and 20 more while these are made.
_BYTES_PER_PAIR = 48
# Bytes that the pairs of a model may take: beyond, those of the least popular items are left out.
MAX_PAIR_BYTES = 2**30


def most_pairs(max_bytes: int) -> int:
    """Return how many pairs fit into some bytes."""
    return max_bytes // _BYTES_PER_PAIR


def count_pairs(users: Users, user_exponent: float, max_bytes: int = MAX_PAIR_BYTES) -> PairCounts:
    """Count the pairs of as many popular items as fit into some bytes; see `rare_items`."""
    return users.add_up(PairsPass(user_exponent, rare_items(users, max_bytes)))


def rare_items(users: Users, max_bytes: int) -> Array:
    """Return the items to leave out, so that the pairs of all others fit into some bytes.

    The least popular ones, positions, rising; none where all pairs fit. Exact, and the same over
    any shards: pairs are told apart a run of items at a time, the most popular first, of which
    each run has no more than fit.
    """
    D, most = users.shape[1], most_pairs(max_bytes)
    sizes = users.add_up(_SizesPass())
    if min(sizes.n_pairs, D * (D + 1) / 2) <= most:
        return np.empty(0, dtype=np.int64)
    by_popularity = np.argsort(-sizes.item_users, kind="stable")
    rank = np.empty(D, dtype=np.int32)
    rank[by_popularity] = np.arange(D, dtype=np.int32)
    bounds = np.minimum(users.add_up(_PairsBeforePass(rank)), np.arange(1, D + 1))
    start, before = 0, 0
    while start < D:
        run = max(int(np.searchsorted(np.cumsum(bounds[start:]), most, side="right")), 1)
        names = users.add_up(_PairNamesPass(rank, slice(start, start + run))).names
        own = np.bincount((names >> 32) - start, minlength=run)
        in_all = before + np.cumsum(own)
        kept = int(np.searchsorted(in_all, most, side="right"))
        if kept < run:
            return np.sort(by_popularity[start + kept :])
        start, before = start + run, int(in_all[-1])
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _Sizes:
    """n_pairs: of all users, each pair as often as it was taken.  item_users: (D,)."""

    n_pairs: float
    item_users: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(self.n_pairs + other.n_pairs, self.item_users + other.item_users)


@dataclass(frozen=True)
class _SizesPass:
    def __call__(self, rows: UserRows) -> _Sizes:
        sizes = np.diff(rows.X.indptr).astype(np.float64)
        item_users = np.bincount(rows.X.indices, minlength=rows.X.shape[1])
        return _Sizes(float((sizes * (sizes + 1)).sum() / 2), item_users)


@dataclass(frozen=True)
class _PairsBeforePass:
    """With how many items up to itself an item was taken, by rank, counted for every user."""

    rank: Array

    def __call__(self, rows: UserRows) -> Float64:
        X = _by_rank(rows.X, self.rank)
        owners = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        ordinals = np.arange(X.nnz) - X.indptr[owners] + 1
        return np.bincount(X.indices, weights=ordinals, minlength=X.shape[1]).astype(np.float64)


@dataclass(frozen=True)
class _PairNames:
    """Names of pairs, rising; the sum is those of both."""

    names: Array

    def __add__(self, other: Self) -> Self:
        return type(self)(np.union1d(self.names, other.names))


@dataclass(frozen=True)
class _PairNamesPass:
    """The pairs whose item of the larger rank is among some, each once."""

    rank: Array
    items: slice

    def __call__(self, rows: UserRows) -> _PairNames:
        return _PairNames(_pair_names(_by_rank(rows.X, self.rank), self.items))


def _by_rank(X: Csr, rank: Array) -> Csr:
    """Return whether each user took the item of each rank, (N, D)."""
    taken = np.ones(X.nnz, dtype=np.int8)  # not the counts of X: they would be sorted in place
    by_rank = sparse.csr_array((taken, rank[X.indices], X.indptr), shape=X.shape)
    by_rank.sort_indices()
    return by_rank


def _pair_names(X: Csr, items: slice) -> Array:
    """Return the names y 2^32 + h of all pairs h <= y with y among some items, rising."""
    columns = X.tocsc()
    users = sparse.csr_array(columns.T)

    def slab(own: slice) -> Array:
        both = (users[: own.stop] @ columns[:, own].tocsr()).tocsc()  # (items up to here, these)
        second = np.repeat(np.arange(own.start, own.stop), np.diff(both.indptr))
        first = both.indices
        once = first <= second
        return np.sort(second[once].astype(np.int64) * 2**32 + first[once])

    slabs = [
        slice(max(own.start, items.start), min(own.stop, items.stop))
        for own in pair_slabs(X)
        if own.stop > items.start and own.start < items.stop
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *map_blocks(slab, slabs)])
