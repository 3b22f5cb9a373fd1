"""One score from all three moments: a weighted sum of parts.

    score_y = trend_y^trend * sum_part weight_part part_y / (its best unseen item of the user)

Divided so, the weights mean the same for every user. The trend (`recency.py`) is 1 where no days
are known. The ranking by components alone is the same with one part whose factor is 1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Literal, Self, get_args

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.parts import ComponentsPart, Histories, Part
from mom_pipeline.core.types import Array, Float64

RankingName = Literal["components", "three-moment"]

# Scores that are weighted before they are added, in numbers: few enough to stay in the cache.
_SCORES_AT_A_TIME = 500_000

# Settings of the ranking that are days, and so above 0.
HALF_LIVES = ("trend_half_life", "history_half_life")
# A half-life of a century: a history does not age.
NO_AGEING = 36_500.0


@dataclass(frozen=True)
class RankingWeights:
    """Weights and exponents of the three-moment ranking.

    The defaults are used where nothing can be chosen: on held-out items of four data sets and
    later days of three of them 3 to 13 % better than pairs and their low-pass part.
    popularity to own: weights of the parts; `own` for lists that may hold the user's own items.
    user_exponent: power of a user's number of items that divides their co-occurrences.
    history_exponent, candidate_exponent: powers of an item's users that divide a co-occurrence
        on either side.  sharpness: power of the result.
    low_pass_scaling: power of an item's users that divides it in the low-pass part.
    ease_ridge, low_pass_ridge: in units of the mean diagonal of the second moment.
    trend: power of the items' trend; trend_half_life, history_half_life: in days, NO_AGEING for
        histories that do not age.
    """

    popularity: float = 0.0
    pairs: float = 1.0
    ease: float = 2.0
    low_pass: float = 0.2
    components: float = 0.2
    own: float = 0.0
    user_exponent: float = 1.0
    history_exponent: float = 0.5
    candidate_exponent: float = 0.3
    sharpness: float = 1.0
    low_pass_scaling: float = 0.5
    ease_ridge: float = 5.0
    low_pass_ridge: float = 0.0
    trend: float = 0.0
    trend_half_life: float = 30.0
    history_half_life: float = NO_AGEING

    @property
    def anchored(self) -> tuple[float, ...]:
        """What co-occurrences, low-pass and EASE depend on: other values need all rows."""
        scaling = self.low_pass_scaling if self.low_pass else -1.0
        return (self.user_exponent, scaling, self.ease_ridge if self.ease else -1.0)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not np.isfinite(value) or value < 0:
                raise InvalidSetting(
                    f"{field.name} of the ranking must be zero or more, found {value}"
                )
        for name in HALF_LIVES:
            if getattr(self, name) == 0:
                raise InvalidSetting(f"{name} of the ranking must be above 0 days, found 0")


def ranking_name(name: str) -> RankingName:
    """Return the name of a ranking; InvalidSetting for an unknown one."""
    for known in get_args(RankingName):
        if name == known:
            return known
    raise InvalidSetting(f"ranking must be 'components' or 'three-moment', found {name!r}")


@dataclass(frozen=True)
class Score:
    """Parts with their weights.

    Pairs, EASE and low-pass read a history as a set, the components its counts.
    relative: whether parts are divided by their best unseen item.
    trend: (D,), what the sum of the parts is multiplied by; None for 1.
    """

    parts: tuple[tuple[Part, float], ...]
    relative: bool = True
    trend: Array | None = None

    @classmethod
    def from_probs(cls, item_probs: Array) -> Self:
        """Return the score P[item | user], undivided."""
        return cls(((ComponentsPart(item_probs), 1.0),), relative=False)

    def __call__(self, rows: Histories) -> tuple[Array, dict[str, Array]]:
        """Return the scores, (users, D), and by what each part was multiplied: name -> (users,)."""
        if not self.relative:
            ((part, _),) = self.parts
            return part.scores(rows), {part.name: np.ones(rows.X.shape[0])}
        total, factors = combined(self._terms(rows), rows.X.shape, reuse=True)
        if self.trend is not None:
            total *= self.trend
        return total, factors

    def trend_at(self, items: Array) -> Array:
        """Return what the parts of some items are multiplied by, in the shape of `items`."""
        return np.ones(items.shape) if self.trend is None else self.trend[items]

    def _terms(self, rows: Histories) -> Iterator[tuple[str, float, Array, Array]]:
        for part, weight in self.parts:
            scores = part.scores(rows)
            yield part.name, weight, scores, best_unseen(scores, rows.seen)


def combined(
    terms: Iterable[tuple[str, float, Array, Array]], shape: tuple[int, ...], *, reuse: bool = False
) -> tuple[Array, dict[str, Array]]:
    """Add parts up: sum_p weight_p scores_p / best_p, and the factors weight_p / best_p.

    terms: name, weight, scores of the given shape (rows, items), best: (rows,).
    reuse: the first scores may be written to, which saves the memory of the sum.
    """
    total, factors = None, {}
    step = max(1, _SCORES_AT_A_TIME // max(shape[1], 1))
    for name, weight, scores, best in terms:
        factors[name] = weight / best
        own = factors[name][:, None].astype(scores.dtype)
        if total is None:
            single = reuse and scores.dtype == np.float32
            total = np.multiply(scores, own, out=scores if single else np.empty(shape, np.float32))
            continue
        for start in range(0, shape[0], step):
            rows = slice(start, start + step)
            total[rows] += scores[rows] * own[rows]
    return np.zeros(shape, np.float32) if total is None else total, factors


def best_unseen(scores: Array, seen: tuple[Array, ...]) -> Float64:
    """Return the largest score of every row outside of the entries `seen`: (rows,).

    seen: row and column of these.  1 where there is none but the rounding of the others.
    """
    own = scores[seen]
    scores[seen] = -np.inf
    best = scores.max(axis=1)
    scores[seen] = own
    largest = best.copy()
    np.maximum.at(largest, seen[0], own)
    rounding = np.finfo(best.dtype).eps * np.maximum(largest, 0.0)
    return np.where(best > rounding, best, 1.0).astype(np.float64)
