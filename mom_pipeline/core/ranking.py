"""One ranking from all three moments: popularity, pairs, and the latent classes.

    score = popularity * M1 + pairs * M2 + explained * M2^-1 + low_pass * (top part of M2)
            + classes * P[y | u]

Each part is divided by its own best unseen item of the user before the parts are added, so
that the weights mean the same for every user.
"""

from dataclasses import dataclass, fields

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.low_pass import LowPass
from mom_pipeline.core.pair_scores import ExplainedPairs, PairScores, as_binary
from mom_pipeline.core.prediction import Scorer, hide_seen
from mom_pipeline.core.types import Array, Csr


@dataclass(frozen=True)
class RankingWeights:
    """Weights and exponents of the three-moment ranking.

    user_exponent: power of a user's items that divides what their pairs count.
    history_exponent, candidate_exponent: powers of an item's users that divide a pair's count
        on the side of the history and on the side of the candidate.
    sharpness: power of the count so divided: above 1 the nearest items of a history speak
        louder than many distant ones.
    explained_ridge, low_pass_ridge: in units of the mean diagonal of the second moment.
    """

    popularity: float = 0.0
    pairs: float = 1.0
    explained: float = 0.0
    low_pass: float = 0.5
    classes: float = 0.0
    user_exponent: float = 1.0
    history_exponent: float = 0.5
    candidate_exponent: float = 0.3
    sharpness: float = 1.0
    explained_ridge: float = 5.0
    low_pass_ridge: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not np.isfinite(value) or value < 0:
                raise InvalidSetting(
                    f"{field.name} of the ranking must be zero or more, found {value}"
                )


@dataclass(frozen=True)
class ThreeMomentRanking:
    """The parts and their weights, as one scorer.

    Pairs and their low-pass part take a history as a set; how often an item was taken tells
    about repeats, not about what comes new. The classes see the counts.
    explained: None where its weight is zero.
    """

    weights: RankingWeights
    pairs: PairScores
    explained: ExplainedPairs | None
    low_pass: LowPass
    classes: Scorer

    def __call__(self, X: Csr) -> Array:
        """Return the scores of a block of users: (users, D)."""
        w, once = self.weights, as_binary(X)
        total = np.zeros(X.shape, dtype=np.float32)
        if w.popularity:
            M1 = np.broadcast_to(self.pairs.item_users.astype(np.float32), X.shape).copy()
            total += w.popularity * scaled_to_best_unseen(M1, X)
        if w.pairs:
            scores = self.pairs.scores(once, w.history_exponent, w.candidate_exponent)
            total += w.pairs * scaled_to_best_unseen(scores, X)
        if w.explained and self.explained is not None:
            total += w.explained * scaled_to_best_unseen(self.explained.scores(once), X)
        if w.low_pass:
            scores = self.low_pass.scores(once, w.low_pass_ridge)
            total += w.low_pass * scaled_to_best_unseen(scores, X)
        if w.classes:
            total += w.classes * scaled_to_best_unseen(self.classes(X), X)
        return total


def scaled_to_best_unseen(scores: Array, X: Csr) -> Array:
    """Divide each row by its largest entry among items the user has not had, in place.

    A row whose unseen entries are only the rounding of its own items' stays as it is.
    """
    rounding = np.finfo(scores.dtype).eps * scores.max(axis=1, keepdims=True)
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    own = scores[users, X.indices]
    hide_seen(scores, X)
    best = scores.max(axis=1, keepdims=True)
    scores[users, X.indices] = own
    scores /= np.where(best > np.maximum(rounding, 0.0), best, 1.0)
    return scores
