"""Moments through an anchor: `Anchor` and `AnchoredSums`, which changed users alone update.

An anchor is a basis U of the scaled item space, the leading eigenvectors of M2 on the day that
it was fixed. Seen through B = S U every moment is small, and a sum over users: to change a
user, subtract the terms of the old row and add those of the new one. Everything that a model
is made of comes from these sums; no row is read again.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.compact import packed
from mom_pipeline.core.linear_algebra.tall import multiply
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import ITEM_SUMS, MomentSums, events_per_user, padded
from mom_pipeline.core.moments.triples import span_sums
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Columns that one thread multiplies at a time: a gathered row fills whole cache lines.
_COLUMNS_PER_SLAB = 32


@dataclass(frozen=True)
class Anchor:
    """What a full rebuild fixes."""

    basis: Array  # U, (D, K') orthonormal; its precision is that of the products
    item_scale: Float64  # (D,) the diagonal of S
    estimator: Estimator
    # (K', K) of the anchor's day, in the basis: where later ones start
    components: Float64 | None = None
    half_components: Array | None = None  # (2, K', K) the same of either half of the users
    passes: int = 0  # see `Eigenpairs`
    residual: float = 0.0

    @cached_property
    def known(self) -> Array:
        """Which items have a row in the basis, (D,): those that came later have none."""
        return np.asarray(self.basis.any(axis=1))

    @property
    def n_items(self) -> int:
        return len(self.item_scale)

    def with_items(self, n_items: int) -> Self:
        """The anchor with zero rows, of scale 1, for later items: the sums stay exact."""
        if n_items == self.n_items:
            return self
        scale = np.ones(n_items)
        scale[: self.n_items] = self.item_scale
        return replace(self, basis=padded(self.basis, n_items), item_scale=scale)


@dataclass(frozen=True)
class AnchoredSums:
    """All moments of some users, seen through an anchor that is kept elsewhere.

        H = sum_u a_u (B.T x)(B.T x).T,   T_B = sum_u a'_u (B.T x)^(⊗3),   C = sum_u a_u x (B.T x).T

    pairs: H, (K', K').  triples: T_B without its repetitions, see `packed`.
    item_pairs: C, (D, K'), M2 seen through the basis from one side; None where only the
    components are compared, as for a half.
    half: the sums over the first half of the users, where halves are told apart.
    """

    first: MomentSums
    pairs: Float64
    triples: Float64
    item_pairs: Array | None
    half: Self | None = None

    @classmethod
    def from_rows(cls, X: Csr, anchor: Anchor, *, in_half: Array | None = None) -> Self:
        """Sum over the users of X, (N, D), and over those in the first half, (N,) of bool."""
        C, ones = np.zeros(anchor.basis.shape, dtype=anchor.basis.dtype), np.ones(X.shape[0])
        if in_half is None:
            return replace(cls._signed(X, ones, anchor, C), item_pairs=C)
        first, second = (
            cls._signed(X[part], ones[part], anchor, C) for part in (in_half, ~in_half)
        )
        return replace(first + second, item_pairs=C, half=first)

    @classmethod
    def _signed(cls, X: Csr, signs: Float64, anchor: Anchor, C: Array | None) -> Self:
        """Sum over users by sign, +1 or -1; item pairs are added in place to C, (D, K')."""
        if X.shape[1] != anchor.n_items:
            raise InvalidInteractions(
                f"the anchor knows {anchor.n_items} items but the rows have {X.shape[1]}; rebuild "
                "in full, or use the anchor's item positions"
            )
        estimator = anchor.estimator
        weighted = estimator.weighted(X)
        rows, items = _occurring(weighted)
        B = anchor.basis[items]
        B *= anchor.item_scale[items, None].astype(B.dtype)
        Y = None if C is None else np.empty((X.shape[0], B.shape[1]), dtype=B.dtype)
        pairs, triples = span_sums(rows, B, estimator, signs=signs, projections=Y)
        if C is not None and Y is not None:
            weights = signs * estimator.term_weights(events_per_user(weighted), 2)[0]
            C[items] += _item_pairs(rows, Y, weights)
        return cls(_signed_first(X, signs, estimator), pairs, packed(triples), None)

    def update(
        self, removed: Csr, added: Csr, anchor: Anchor, *, in_half: Array | None = None
    ) -> Self:
        """The sums with rows taken away and others added, (any, D), exact up to rounding."""
        X = sparse.csr_array(sparse.vstack([removed, added], format="csr"))
        signs = np.repeat([-1.0, 1.0], [removed.shape[0], added.shape[0]])
        C = self.item_pairs
        if C is not None:
            C = np.pad(C, [(0, X.shape[1] - len(C)), (0, 0)])  # a copy, to be added to
        sums = replace(self, half=None, item_pairs=None).with_items(X.shape[1])
        if self.half is None or in_half is None:
            return replace(sums + self._signed(X, signs, anchor, C), item_pairs=C)
        first, second = (
            self._signed(X[part], signs[part], anchor, C) for part in (in_half, ~in_half)
        )
        half = self.half.with_items(X.shape[1]) + first
        return replace(sums + first + second, item_pairs=C, half=half)

    def __add__(self, other: Self) -> Self:
        return self._combined(other, operator.add)

    def __sub__(self, other: Self) -> Self:
        return self._combined(other, operator.sub)

    def _combined(self, other: Self, combine: Callable[[Any, Any], Any]) -> Self:
        """Item pairs and halves are kept where both sides have them."""
        C = half = None
        if self.item_pairs is not None and other.item_pairs is not None:
            C = combine(self.item_pairs, other.item_pairs)
        if self.half is not None and other.half is not None:
            half = self.half._combined(other.half, combine)
        return replace(
            self,
            first=combine(self.first, other.first),
            pairs=combine(self.pairs, other.pairs),
            triples=combine(self.triples, other.triples),
            item_pairs=C,
            half=half,
        )

    def with_items(self, n_items: int) -> Self:
        """Return the same sums among more items."""
        C = None if self.item_pairs is None else padded(self.item_pairs, n_items)
        half = None if self.half is None else self.half.with_items(n_items)
        return replace(self, first=self.first.with_items(n_items), item_pairs=C, half=half)

    def as_arrays(self) -> dict[str, Array]:
        """Return all sums as named arrays, to be stored; `from_arrays` reads them back."""
        first = self.first
        arrays = {
            "totals": np.array([first.n_users, first.pair_weight, first.triple_weight]),
            "sizes": first.sizes,
            **{name: getattr(first, name) for name in ITEM_SUMS},
            "pairs": self.pairs,
            "triples": self.triples,
        }
        if self.item_pairs is not None:
            arrays["item_pairs"] = self.item_pairs
        if self.half is not None:
            arrays |= {f"half_{name}": array for name, array in self.half.as_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the sums that `as_arrays` named."""
        n_users, pair_weight, triple_weight = arrays["totals"].tolist()
        first = MomentSums(
            int(n_users),
            arrays["sizes"],
            pair_weight,
            triple_weight,
            *(arrays[name] for name in ITEM_SUMS),
        )
        half = {name[5:]: array for name, array in arrays.items() if name.startswith("half_")}
        return cls(
            first,
            arrays["pairs"],
            arrays["triples"],
            arrays.get("item_pairs"),
            cls.from_arrays(half) if half else None,
        )


def second_moment_times(anchor: Anchor, sums: AnchoredSums, P: Float64) -> Array:
    """Return M2 U P, (D, columns), from the sums alone.  P: (K', columns).

    M2 U = S C / sum_u omega_u   (less the events paired with themselves, for distinct draws)
    """
    C = sums.item_pairs
    if C is None:
        raise InvalidInteractions("these sums were made without item pairs")
    scale = anchor.item_scale / sums.first.pair_weight
    product = multiply(C, P, out=np.empty((len(C), P.shape[1]), dtype=C.dtype), scale=scale)
    if anchor.estimator.distinct:
        diagonal = scale * anchor.item_scale * sums.first.pair_diagonal
        product -= multiply(anchor.basis, P, out=np.empty_like(product), scale=diagonal)
    return product


def _item_pairs(rows: Csr, Y: Array, a: Float64) -> Array:
    """Return sum_u a_u x_u y_u.T, (items, K'); Y (N, K') is written over."""
    Y *= a[:, None].astype(Y.dtype)
    C = np.empty((rows.shape[1], Y.shape[1]), dtype=Y.dtype)
    transposed = rows.astype(Y.dtype).T
    edges = range(0, Y.shape[1], _COLUMNS_PER_SLAB)

    def slab(start: int) -> None:
        columns = slice(start, start + _COLUMNS_PER_SLAB)
        C[:, columns] = transposed @ np.ascontiguousarray(Y[:, columns])

    map_blocks(slab, edges)
    return C


def _signed_first(X: Csr, signs: Float64, estimator: Estimator) -> MomentSums:
    if (signs > 0).all():
        return MomentSums.from_rows(X, estimator)
    added, removed = (MomentSums.from_rows(X[signs == sign], estimator) for sign in (1, -1))
    return added - removed


def _occurring(X: Csr) -> tuple[Csr, Array]:
    """X with the columns of the items that occur alone, and these items: a day touches few."""
    occurs = np.bincount(X.indices, minlength=X.shape[1]) > 0
    items = np.flatnonzero(occurs)
    if len(items) == X.shape[1]:
        return X, items
    position = (np.cumsum(occurs) - 1).astype(X.indices.dtype)
    shape = (X.shape[0], len(items))
    return sparse.csr_array((X.data, position[X.indices], X.indptr), shape=shape), items
