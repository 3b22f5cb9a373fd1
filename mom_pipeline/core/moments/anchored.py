"""Moments that a day changes only by its changed users.

At a full rebuild a basis B of the item space is fixed, a little wider than the K components.
Seen through B every moment is small, and a sum over users: to change a user, subtract the
terms of the old row and add those of the new one. Whitening and decomposition then happen
inside the span of B, exactly; how much of the second moment that span still holds is measured
by `subspace_capture`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.linear_algebra.eigenpairs import ritz_values_beyond
from mom_pipeline.core.moments.pairs import PairMoments, weighted_gram
from mom_pipeline.core.moments.sums import Estimator, MomentSums, column_sums, events_per_user
from mom_pipeline.core.moments.triples import triple_sums
from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class Anchor:
    """What a full rebuild fixes.

    basis: U, (D, K') orthonormal columns in the scaled space; its precision is that of the
    products with rows.  item_scale: S, (D,).  A row x is seen as B.T x, B = S U.
    """

    basis: Array
    item_scale: Float64
    estimator: Estimator

    @cached_property
    def known(self) -> Array:
        """Tell which items have a row in the basis: those that came later have none, (D,)."""
        return np.asarray(self.basis.any(axis=1))


@dataclass(frozen=True)
class SpanSums:
    """First, second and third moments of some users, seen through an anchor that is kept elsewhere.

    pairs: H, (K', K').  triples: T_B, (K', K', K').
    """

    sums: MomentSums
    pairs: Float64
    triples: Float64

    @classmethod
    def of(cls, X: Csr, anchor: Anchor) -> Self:
        """Sum over the users of X, (N, D)."""
        sums = MomentSums.of(X, anchor.estimator)
        return cls(sums, *_signed_sums(X, np.ones(X.shape[0]), anchor))

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            sums=self.sums + other.sums,
            pairs=self.pairs + other.pairs,
            triples=self.triples + other.triples,
        )


@dataclass(frozen=True)
class AnchoredMoments:
    """First, second and third moments of all users, seen through the anchor's basis.

    pairs: H, (K', K') sum over users.  triples: T_B, (K', K', K') sum over users.
    """

    anchor: Anchor
    sums: MomentSums
    pairs: Float64
    triples: Float64

    @classmethod
    def of(cls, X: Csr, anchor: Anchor) -> Self:
        """Sum over all users of X, (N, D)."""
        return cls.through(anchor, SpanSums.of(X, anchor))

    @classmethod
    def through(cls, anchor: Anchor, found: SpanSums) -> Self:
        """Return the sums together with the anchor that they were seen through."""
        return cls(anchor, found.sums, found.pairs, found.triples)

    def update(self, old_rows: Csr, new_rows: Csr) -> Self:
        """Return the moments after some users' rows changed.

        old_rows, new_rows: (changed users, D), an empty row for a user who was not there or
        is to be forgotten. The result equals the sums over the changed data up to rounding.
        """
        old, new = (MomentSums.of(rows, self.anchor.estimator) for rows in (old_rows, new_rows))
        changes = sparse.csr_array(sparse.vstack([old_rows, new_rows], format="csr"))
        signs = np.repeat([-1.0, 1.0], [old_rows.shape[0], new_rows.shape[0]])
        pairs, triples = _signed_sums(changes, signs, self.anchor)
        pairs += self.pairs
        triples += self.triples
        return replace(
            self,
            sums=self.sums - old + new,
            pairs=pairs,
            triples=triples,
        )

    def operator(self, X: Csr) -> PairMoments:
        """Return M2 of the rows in the anchor's scaling, in the precision of its basis."""
        anchor = self.anchor
        return PairMoments.of(
            X,
            self.sums,
            anchor.estimator,
            item_scale=anchor.item_scale,
            dtype=anchor.basis.dtype.type,
        )

    def subspace_capture(self, X: Csr, n_components: int, rng: np.random.Generator) -> float:
        """Return the share of the top eigenvalues of today's M2 that the span still holds.

        Compares the Ritz values inside the span with those after it was widened by what two
        narrow passes over X find outside: 1 means that nothing was lost.
        """
        H = self.pairs / self.sums.pair_weight
        widened = ritz_values_beyond(self.operator(X), self.anchor.basis, H, rng)
        held = np.linalg.eigvalsh(H)[::-1]
        K = n_components
        return float(np.maximum(held[:K], 0).sum() / np.maximum(widened[:K], 0).sum())


def _signed_sums(X: Csr, signs: Array, anchor: Anchor) -> tuple[Float64, Float64]:
    """Return the sums H and T_B of the rows, each row added or taken away. signs: (N,), +1 or -1.

    Only the items that occur in the rows are looked up in the basis: a day of few changed users
    copies some of its rows, not all of them.
    """
    if X.shape[1] != len(anchor.item_scale):
        raise InvalidInteractions(
            f"the anchor knows {len(anchor.item_scale)} items but the rows have "
            f"{X.shape[1]}; rebuild in full, or use the anchor's item positions"
        )
    occurs = np.bincount(X.indices, minlength=X.shape[1]) > 0
    items = np.flatnonzero(occurs)
    position = (np.cumsum(occurs) - 1).astype(X.indices.dtype)
    rows: Csr = sparse.csr_array(
        (X.data, position[X.indices], X.indptr), shape=(X.shape[0], len(items))
    )
    B = anchor.basis[items]
    B *= anchor.item_scale[items, None].astype(B.dtype)
    estimator = anchor.estimator
    a = signs * estimator.term_weights(events_per_user(X), 2)[0]
    pairs = weighted_gram(rows, a, B)
    if estimator.distinct:
        pairs -= B.T @ (column_sums(rows, a)[:, None] * B)
    return pairs, triple_sums(rows, B, estimator, signs=signs)
