"""Moments that a day changes only by its changed users.

At a full rebuild a basis B of the item space is fixed, a little wider than the K components.
Seen through B every moment is small, and a sum over users: to change a user, subtract the
terms of the old row and add those of the new one. Whitening and decomposition then happen
inside the span of B, exactly; how much of the second moment that span still holds is measured
by `subspace_capture`.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments import (
    Estimator,
    MomentSums,
    PairMoments,
    column_sums,
    events_per_user,
)
from mom_pipeline.core.tensor import triple_sums
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.core.whitening import ritz_values_beyond

_USERS_PER_BLOCK = 16_384


@dataclass(frozen=True)
class Anchor:
    """What a full rebuild fixes.

    basis: U, (D, K') orthonormal columns in the scaled space; its precision is that of the
    products with rows.  item_scale: S, (D,).  A row x is seen as B.T x, B = S U.
    """

    basis: Array
    item_scale: Float64
    estimator: Estimator


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
        rows, B = _own_items(X, anchor)
        return cls(
            anchor=anchor,
            sums=MomentSums.of(X, anchor.estimator),
            pairs=_pair_sums(rows, B, anchor.estimator),
            triples=triple_sums(rows, B, anchor.estimator),
        )

    def update(self, old_rows: Csr, new_rows: Csr) -> Self:
        """Return the moments after some users' rows changed.

        old_rows, new_rows: (changed users, D), an empty row for a user who was not there or
        is to be forgotten. The result equals the sums over the changed data up to rounding.
        """
        old = type(self).of(old_rows, self.anchor)
        new = type(self).of(new_rows, self.anchor)
        return replace(
            self,
            sums=self.sums - old.sums + new.sums,
            pairs=self.pairs - old.pairs + new.pairs,
            triples=self.triples - old.triples + new.triples,
        )

    def pairs_from_rows(self, X: Csr) -> Float64:
        """Return H of the rows themselves, (K', K'), to hold the sums against."""
        return _pair_sums(*_own_items(X, self.anchor), self.anchor.estimator)

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


def _own_items(X: Csr, anchor: Anchor) -> tuple[Csr, Array]:
    """Return the rows among the items that occur in them, and B at these items alone.

    A few users have few items: a day then copies some rows of the basis, not all of it.
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
    return rows, B


def _pair_sums(X: Csr, B: Array, estimator: Estimator) -> Float64:
    """Return sum_u a_u (B.T x_u)(B.T x_u).T, less the events paired with themselves.

    Blocks of users on threads, added in their order; the products of a block in float64.
    """
    a, _ = estimator.term_weights(events_per_user(X), 2)
    roots = np.sqrt(a)
    rows = X.astype(B.dtype)

    def block(start: int) -> Float64:
        users = slice(start, start + _USERS_PER_BLOCK)
        Y = (rows[users] @ B) * roots[users, None]
        return np.asarray(Y.T @ Y)

    H: Float64 = np.zeros((B.shape[1], B.shape[1]))
    for part in map_blocks(block, range(0, X.shape[0], _USERS_PER_BLOCK)):
        H += part
    if estimator.distinct:
        H -= B.T @ (column_sums(X, a)[:, None] * B)
    return H
