"""One ranking from all three moments: popularity, pairs, and the latent classes.

    score = popularity * M1 + pairs * M2 + low_pass * (top part of M2) + classes * P[y | u]

Each part is divided by its own best unseen item of the user before the parts are added, so
that the weights mean the same for every user.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.moments import events_per_user, scaled_rows_and_columns
from mom_pipeline.core.prediction import Scorer, hide_seen
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.core.validation import with_narrow_indices


@dataclass(frozen=True)
class RankingWeights:
    """Weights and exponents of the three-moment ranking.

    history_exponent, candidate_exponent: powers of an item's users that divide the pair score
    on the side of the history and on the side of the candidate.
    low_pass_rank: eigenvectors of the second moment in the low-pass part.
    """

    popularity: float = 0.0
    pairs: float = 1.0
    low_pass: float = 0.5
    classes: float = 0.0
    history_exponent: float = 0.5
    candidate_exponent: float = 0.3
    low_pass_rank: int = 512

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not np.isfinite(value) or value < 0:
                raise InvalidSetting(
                    f"{field.name} of the ranking must be zero or more, found {value}"
                )


@dataclass(frozen=True)
class PairScores:
    """The second moment as a ranking: how often a candidate goes with the history's items.

        score_y = c_y^-candidate  sum_h x_h c_h^-history  G_hy,     G = X^T diag(1/n) X

    G is the second moment of the balanced estimator before its item scaling.
    counts: G, (D, D) sparse.  item_users: c, (D,).
    """

    counts: Csr
    item_users: Float64

    @classmethod
    def of(cls, X: Csr) -> Self:
        """Count the pairs of every user."""
        n = np.maximum(events_per_user(X), 1.0)
        half = scaled_rows_and_columns(X, n**-0.5, np.ones(X.shape[1]), np.float32)
        item_users = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
        return cls(with_narrow_indices((half.T @ half).tocsr()), item_users)

    def history_sums(self, X: Csr, exponents: list[float]) -> Iterator[Array]:
        """Yield sum_h x_h c_h^-exponent G_hy of one user after the other: (D, exponents)."""
        scales = np.maximum(self.item_users, 1.0)[:, None] ** -np.array(exponents)
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            history = X.indices[start:stop]
            weights = X.data[start:stop, None] * scales[history]
            yield self.counts[history].T @ weights.astype(np.float32)

    def scores(self, X: Csr, weights: RankingWeights) -> Array:
        """Return the scores of a block of users: (users, D)."""
        sums = np.empty(X.shape, dtype=np.float32)
        for row, columns in zip(
            sums, self.history_sums(X, [weights.history_exponent]), strict=True
        ):
            row[:] = columns[:, 0]
        candidate = np.maximum(self.item_users, 1.0) ** -weights.candidate_exponent
        sums *= candidate.astype(np.float32)
        return sums


@dataclass(frozen=True)
class LowPass:
    """The history seen through the leading eigenvectors of the normalised second moment.

        score = x S V V^T S^-1,     S = diag(c^-1/2)

    basis: V, (D, rank) orthonormal.  item_scale: the diagonal of S, (D,).
    """

    basis: Array
    item_scale: Float64

    def scores(self, X: Csr, rank: int) -> Array:
        """Return the scores of a block of users: (users, D)."""
        V = self.basis[:, :rank]
        scale = self.item_scale.astype(V.dtype)
        seen_through = scaled_rows_and_columns(X, np.ones(X.shape[0]), scale, V.dtype.type) @ V
        return np.asarray(seen_through @ V.T / scale)


@dataclass(frozen=True)
class ThreeMomentRanking:
    """The parts and their weights, as one scorer."""

    weights: RankingWeights
    pairs: PairScores
    low_pass: LowPass
    classes: Scorer

    def __call__(self, X: Csr) -> Array:
        """Return the scores of a block of users: (users, D)."""
        w = self.weights
        total = np.zeros(X.shape, dtype=np.float32)
        if w.popularity:
            M1 = np.broadcast_to(self.pairs.item_users.astype(np.float32), X.shape).copy()
            total += w.popularity * scaled_to_best_unseen(M1, X)
        if w.pairs:
            total += w.pairs * scaled_to_best_unseen(self.pairs.scores(X, w), X)
        if w.low_pass:
            scores = self.low_pass.scores(X, w.low_pass_rank)
            total += w.low_pass * scaled_to_best_unseen(scores, X)
        if w.classes:
            total += w.classes * scaled_to_best_unseen(self.classes(X), X)
        return total


def scaled_to_best_unseen(scores: Array, X: Csr) -> Array:
    """Divide each row by its largest entry among items the user has not had, in place."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    own = scores[users, X.indices]
    hide_seen(scores, X)
    best = scores.max(axis=1, keepdims=True)
    scores[users, X.indices] = own
    scores /= np.where(best > 0, best, 1.0)
    return scores
