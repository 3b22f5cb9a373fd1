"""One ranking from all three moments: popularity, pairs, and the latent classes.

    score = popularity * M1 + pairs * M2 + explained * M2^-1 + low_pass * (top part of M2)
            + classes * P[y | u]

Each part is divided by its own best unseen item of the user before the parts are added, so
that the weights mean the same for every user.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_scores import ExplainedPairs, PairScores, as_binary
from mom_pipeline.core.ranking.topn import Scorer, hide_seen
from mom_pipeline.core.types import Array, Csr

POPULARITY, PAIRS, INVERSE, LOW_PASS, CLASSES = (
    "popularity",
    "pairs",
    "inverse",
    "low-pass",
    "classes",
)


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
        return self.with_factors(X)[0]

    def with_factors(self, X: Csr) -> tuple[Array, dict[str, Array]]:
        """Return the scores, and by what each part was multiplied: name -> (users,)."""
        total = np.zeros(X.shape, dtype=np.float32)
        factors = {}
        for name, weight, scores in self._parts(X):
            factors[name] = weight / best_unseen(scores, X)
            scores *= factors[name][:, None].astype(scores.dtype)
            total += scores
        return total, factors

    def _parts(self, X: Csr) -> Iterator[tuple[str, float, Array]]:
        """Yield name, weight and plain scores, (users, D), of every part with a weight."""
        w, once = self.weights, as_binary(X)
        if w.popularity:
            M1 = np.broadcast_to(self.pairs.item_users.astype(np.float32), X.shape).copy()
            yield POPULARITY, w.popularity, M1
        if w.pairs:
            scores = self.pairs.scores(once, w.history_exponent, w.candidate_exponent)
            yield PAIRS, w.pairs, scores
        if w.explained and self.explained is not None:
            yield INVERSE, w.explained, self.explained.scores(once)
        if w.low_pass:
            yield LOW_PASS, w.low_pass, self.low_pass.scores(once, w.low_pass_ridge)
        if w.classes:
            yield CLASSES, w.classes, self.classes(X)


def best_unseen(scores: Array, X: Csr) -> Array:
    """Return the largest score of every row among items the user has not had: (users,).

    1 where there is none, or where it is only the rounding of the user's own items.
    """
    rounding = np.finfo(scores.dtype).eps * scores.max(axis=1)
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    own = scores[users, X.indices]
    hide_seen(scores, X)
    best = scores.max(axis=1)
    scores[users, X.indices] = own
    return np.where(best > np.maximum(rounding, 0.0), best, 1.0).astype(np.float64)
