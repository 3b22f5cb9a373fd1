"""Sums of 32 hash groups of users beside those of everyone: any union of them is a data set.

A group are the users whose number, spread evenly, begins with the same five bits; the halves of
`in_first_half` are unions of sixteen. Estimates without one group tell how much they vary
(jackknife), those of halves, quarters and eighths what more users would give: groups are added and
subtracted, and no row is read again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.linear_algebra.compact import packed
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums, column_sums, events_per_user
from mom_pipeline.core.moments.triples import span_sums
from mom_pipeline.core.moments.users import UserRows, Users, spread
from mom_pipeline.core.types import Array, Csr, Float64

N_GROUPS = 32
_FIRST_BITS = np.uint64(59)
# Every group has its own rows of C for so many items, the most popular ones.
_MAX_ITEMS = 2_000


def hash_groups(users: Array) -> Array:
    """Return the group of users, by position, (n,) in 0..31: the same forever."""
    return (spread(users) >> _FIRST_BITS).astype(np.int64)


@dataclass(frozen=True)
class HashedSums:
    """The sums of each of G = 32 groups, seen through an anchor that is kept elsewhere."""

    totals: Float64  # (G, 3) users, sum of omega, of omega'
    pairs: Float64  # H, (G, K', K')
    triples: Float64  # (G, packed)
    item_pairs: Float64  # (G, M + 1, K') C of items, less repeats if distinct; last over all
    items: Array  # (M,) positions

    @classmethod
    def from_users(cls, users: Users, anchor: Anchor, item_users: Array) -> Self:
        """Sum over all users: one pass. item_users: (D,), of which the most decide on the items."""
        popular = np.argsort(-item_users, kind="stable")[:_MAX_ITEMS]
        sums = users.add_up(_HashedPass(anchor, np.sort(popular)))
        return cls(**{field.name: getattr(sums, field.name) for field in fields(cls)})

    @classmethod
    def from_rows(
        cls, X: Csr, positions: Array, anchor: Anchor, items: Array, signs: Array | None = None
    ) -> Self:
        """Sum over the users of X, (n, D), at some positions; signs: -1 for those taken away."""
        signs = np.ones(X.shape[0]) if signs is None else signs
        groups = hash_groups(positions)
        terms = [
            _terms(X[own], signs[own], anchor, items)
            for own in (np.flatnonzero(groups == group) for group in range(N_GROUPS))
        ]
        totals, pairs, triples, item_pairs = (np.stack(part) for part in zip(*terms, strict=True))
        return cls(totals, pairs, triples, item_pairs, items)

    def update(self, removed: Csr, added: Csr, positions: Array, anchor: Anchor) -> Self:
        """Return the sums after rows changed. positions: of those removed, then of those added."""
        X = sparse.csr_array(sparse.vstack([removed, added], format="csr"))
        signs = np.repeat([-1.0, 1.0], [removed.shape[0], added.shape[0]])
        return self + self.from_rows(X, positions, anchor, self.items, signs)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.totals + other.totals,
            self.pairs + other.pairs,
            self.triples + other.triples,
            self.item_pairs + other.item_pairs,
            self.items,
        )

    def of(self, groups: Array) -> AnchoredSums:
        """Return the sums of the users of some groups, (any,), without item pairs."""
        users, pair_weight, triple_weight = self.totals[groups].sum(axis=0).tolist()
        none = np.zeros(0)
        first = MomentSums(int(users), np.zeros(3), pair_weight, triple_weight, none, none, none)
        return AnchoredSums(
            first, self.pairs[groups].sum(axis=0), self.triples[groups].sum(axis=0), None
        )

    def as_arrays(self) -> dict[str, Array]:
        """Return all sums as named arrays, to be stored; `from_arrays` reads them back."""
        return {f"hashed_{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        return cls(**{field.name: arrays[f"hashed_{field.name}"] for field in fields(cls)})


@dataclass(frozen=True)
class _HashedPass:
    anchor: Anchor
    items: Array

    def __call__(self, rows: UserRows) -> HashedSums:
        return HashedSums.from_rows(rows.X, rows.positions, self.anchor, self.items)


def _terms(
    X: Csr, signs: Float64, anchor: Anchor, items: Array
) -> tuple[Float64, Float64, Float64, Float64]:
    """Return totals, H, T_B and the item pairs of some users."""
    estimator = anchor.estimator
    X, basis = estimator.weighted(X), anchor.basis
    B = basis * anchor.item_scale[:, None].astype(basis.dtype)
    Y = np.empty((X.shape[0], B.shape[1]), dtype=B.dtype)
    H, T = span_sums(X, B, estimator, signs=signs, projections=Y)
    n = events_per_user(X)
    a = signs * estimator.term_weights(n, 2)[0]
    Y *= a[:, None].astype(Y.dtype)
    C = np.vstack([X[:, items].T @ Y, n @ Y]).astype(np.float64)
    if estimator.distinct:
        own = column_sums(X, a)
        C -= np.vstack([own[items, None] * B[items], own @ B])
    return _totals(n, signs, estimator), H, packed(T), C


def _totals(n: Float64, signs: Float64, estimator: Estimator) -> Float64:
    """Return users, sum of omega and of omega' of those added, less those taken away."""

    def of(events: Float64) -> Float64:
        weights = (estimator.term_weights(events, order)[1] for order in (2, 3))
        return np.array([(events > 0).sum(), *weights], dtype=np.float64)

    return of(n[signs > 0]) - of(n[signs < 0])
