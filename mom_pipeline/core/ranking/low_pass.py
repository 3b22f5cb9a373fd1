"""The history seen through the leading eigenvectors of the second moment."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import MomentSums, scaled_rows_and_columns
from mom_pipeline.core.ranking.pair_scores import as_binary
from mom_pipeline.core.types import Array, Csr, Float64


def second_moment(user_exponent: float) -> Estimator:
    """Return S G S with G of the pair scores and S = diag(c^-e/2), e the user exponent.

    At e = 1 it is the balanced estimator.
    """
    return Estimator.from_name(
        "balanced", user_weight=2 - user_exponent, item_scaling=user_exponent / 2
    )


@dataclass(frozen=True)
class LowPass:
    """What many pairs have in common, without the noise of the single pair.

        score = x S V diag(f) V^T S^-1,     f = s / (s + ridge)

    V, s are eigenpairs of S G S; s and the ridge are in units of its mean diagonal. A ridge
    of 0 is a plain cut after the last eigenvector.
    basis: V, (D, rank) orthonormal.  item_scale: the diagonal of S, (D,).
    strengths: s, (rank,); infinite where only the span is known.
    """

    basis: Array
    item_scale: Float64
    strengths: Float64

    @classmethod
    def of(
        cls,
        X: Csr,
        rank: int,
        rng: np.random.Generator,
        *,
        user_exponent: float,
        dtype: type[np.floating],
        tol: float,
        max_passes: int,
    ) -> Self:
        """Find the leading eigenpairs; counts in X are read as ones."""
        once, estimator = as_binary(X), second_moment(user_exponent)
        M2 = PairMoments.from_rows(
            once, MomentSums.from_rows(once, estimator), estimator, dtype=dtype
        )
        pairs = top_eigenpairs(M2, rank, rng, tol=tol, max_passes=max_passes)
        mean_diagonal = float(np.square(M2.normalised.data, dtype=np.float64).sum()) / M2.n_items
        strengths = np.maximum(pairs.values[:rank], 0.0) / mean_diagonal
        return cls(pairs.vectors[:, :rank], M2.item_scale, strengths)

    def scores(self, X: Csr, ridge: float) -> Array:
        """Return the scores of a block of users: (users, D)."""
        filtered = self._seen_through(X) * self._filter(ridge)
        return np.asarray(filtered @ self.basis.T / self._scale)

    def scores_at(self, X: Csr, items: Array, ridges: list[float]) -> Array:
        """Return the scores of some items alone. items: (users, n).  Result: (ridges, users, n)."""
        filters = np.stack([self._filter(ridge) for ridge in ridges], axis=1)
        scores = np.empty((len(ridges), *items.shape), dtype=self.basis.dtype)
        for user, (seen, own) in enumerate(zip(self._seen_through(X), items, strict=True)):
            scores[:, user] = (self.basis[own] @ (seen[:, None] * filters)).T / self._scale[own]
        return scores

    def filtered_at(self, items: Array, ridge: float) -> Array:
        """Return what a history of one item alone leaves in the basis: (items, rank)."""
        rows = self.basis[items] * self._scale_at(items)
        return np.asarray(rows * self._filter(ridge))

    def spread_at(self, items: Array) -> Array:
        """Return the rows that turn it into scores: (items, rank)."""
        return np.asarray(self.basis[items] / self._scale_at(items))

    def _scale_at(self, items: Array) -> Array:
        return self.item_scale[items, None].astype(self.basis.dtype)

    @property
    def _scale(self) -> Array:
        return self.item_scale.astype(self.basis.dtype)

    def _seen_through(self, X: Csr) -> Array:
        """Return x S V, (users, rank)."""
        scaled = scaled_rows_and_columns(
            X, np.ones(X.shape[0]), self.item_scale, self.basis.dtype.type
        )
        return np.asarray(scaled @ self.basis)

    def _filter(self, ridge: float) -> Array:
        if ridge == 0:
            return np.ones(len(self.strengths), dtype=self.basis.dtype)
        # Written so that an infinite strength passes whole and a zero one not at all.
        with np.errstate(divide="ignore"):
            return (1 / (1 + ridge / self.strengths)).astype(self.basis.dtype)
