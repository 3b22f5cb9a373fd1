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

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments import (
    Estimator,
    MomentSums,
    PairMoments,
    column_sums,
    events_per_user,
)
from mom_pipeline.core.tensor import triple_sums
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.core.whitening import Eigenpairs, Whitening, top_eigenpairs, whitening_from


@dataclass(frozen=True)
class Anchor:
    """What a full rebuild fixes.

    basis: U, (D, K') orthonormal columns in the scaled space.  item_scale: S, (D,).
    """

    basis: Float64
    item_scale: Float64
    estimator: Estimator

    @cached_property
    def to_span(self) -> Float64:
        """Return B = S U, (D, K'): a row x is seen as B.T x."""
        return self.basis * self.item_scale[:, None]


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
        if X.shape[1] != len(anchor.item_scale):
            raise InvalidInteractions(
                f"the anchor knows {len(anchor.item_scale)} items but the rows have "
                f"{X.shape[1]}; rebuild in full, or use the anchor's item positions"
            )
        B = anchor.to_span
        return cls(
            anchor=anchor,
            sums=MomentSums.of(X, anchor.estimator),
            pairs=_pair_sums(X, B, anchor.estimator),
            triples=triple_sums(X, B, anchor.estimator),
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

    def whiten(self, n_components: int) -> tuple[Whitening, Float64]:
        """Return the whitening inside the span, and the whitened tensor (K, K, K).

        H = E diag(s) E.T,   W = B E diag(s)^(-1/2),   T = T_B(E diag(s)^(-1/2), ., .)
        """
        if self.sums.pair_weight <= 0 or self.sums.triple_weight <= 0:
            raise InvalidInteractions("no user has the 3 events that a triple needs; add days")
        values, E = np.linalg.eigh((self.pairs + self.pairs.T) / 2 / self.sums.pair_weight)
        values, E = values[::-1], E[:, ::-1]
        pairs = Eigenpairs(values, self.anchor.basis @ E, passes=0, residual=0.0)
        whitening = whitening_from(pairs, n_components)
        F = E[:, : whitening.n_components] / np.sqrt(whitening.eigenvalues)
        T = np.einsum("abc,ai,bj,ck->ijk", self.triples, F, F, F, optimize=True)
        return whitening, T / self.sums.triple_weight

    def subspace_capture(
        self, X: Csr, n_components: int, rng: np.random.Generator, *, passes: int = 2
    ) -> float:
        """Return the share of the top eigenvalues of today's M2 that the span still holds.

        Compares the Ritz values inside the span with those after a few more passes over X
        that start from it: 1 means that nothing was lost.
        """
        M2 = PairMoments.of(X, self.sums, self.anchor.estimator, item_scale=self.anchor.item_scale)
        fresh = top_eigenpairs(
            M2, n_components, rng, warm_start=self.anchor.basis, tol=0.0, max_passes=passes
        )
        held = np.linalg.eigvalsh(self.pairs / self.sums.pair_weight)[::-1]
        K = n_components
        return float(np.maximum(held[:K], 0).sum() / np.maximum(fresh.values[:K], 0).sum())


def _pair_sums(X: Csr, B: Array, estimator: Estimator) -> Float64:
    """Return sum_u a_u (B.T x_u)(B.T x_u).T, less the events paired with themselves."""
    a, _ = estimator.term_weights(events_per_user(X), 2)
    Y = X @ B
    H = Y.T @ (a[:, None] * Y)
    if estimator.distinct:
        items = np.unique(X.indices)
        own = column_sums(X, a)[items]
        H -= B[items].T @ (own[:, None] * B[items])
    return np.asarray(H)
