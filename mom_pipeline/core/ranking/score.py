"""What ranks: a conditional logit over a few features of user and item, or the components alone.

    score_uy = sum_f (a_f + l_u b_f) z_uyf

    z of a part:  log(1 + r / s) / log(1 + 1 / s),   r: its share of the user's best,  s: .1 or .5
    z of an item: what its users and their days say, the same for everybody
    z of an own item, where lists may hold them: that the user had it, how often and how long ago

l_u: standardised log of the length of the history.
Features of the item alone fold into two vectors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.parts import Histories, Part
from mom_pipeline.core.types import Array, Float64

RankingName = Literal["components", "three-moment"]
# At the mean length of a history, and for each standard deviation of its logarithm beyond.
Coefficient = tuple[float, float]

# Scores of single precision below this are rounding, and their reciprocals no numbers.
_NOTHING = 1e-30
OWN_FEATURES = ("had", "times", "since")


def ranking_name(name: str) -> RankingName:
    """Return the name of a ranking; InvalidSetting for an unknown one."""
    for known in get_args(RankingName):
        if name == known:
            return known
    raise InvalidSetting(f"ranking must be 'components' or 'three-moment', found {name!r}")


@dataclass(frozen=True)
class RankingWeights:
    """The coefficients of the features, each with what length adds to it.

    The defaults rank where there is nothing to learn from: of 35 sums of EASE, co-occurrences,
    users and trend the one that was best overall on one day to two months of three logs.

    pairs, ease, low_pass: of the parts.  users: of the log of an item's users.
    trend_h: of the log of their share of late, each worth 2^(-days ago / h).
    quiet: of the log of the days since an item's last user.
    had, times, since: of an own item: at all, the log of its count, and of the days since then.
    length_mean, length_scale: of the log of the lengths of histories.
    """

    pairs: Coefficient = (1.2, 0.0)
    ease: Coefficient = (1.2, 0.0)
    low_pass: Coefficient = (0.0, 0.0)
    users: Coefficient = (0.3, 0.0)
    trend_1: Coefficient = (0.0, 0.0)
    trend_14: Coefficient = (1.0, 0.0)
    quiet: Coefficient = (0.0, 0.0)
    had: Coefficient = (3.0, 0.0)
    times: Coefficient = (1.0, 0.0)
    since: Coefficient = (-0.3, 0.0)
    length_mean: float = 2.0
    length_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in FEATURES:
            pair = tuple(float(value) for value in getattr(self, name))
            if len(pair) != 2 or not np.isfinite(pair).all():
                raise InvalidSetting(f"{name} of the ranking must be two numbers, found {pair}")
            object.__setattr__(self, name, pair)
        if not self.length_scale > 0 or not np.isfinite(self.length_mean):
            raise InvalidSetting(
                f"length_scale of the ranking must be above 0, found {self.length_scale}"
            )

    def standardised(self, lengths: Array) -> Float64:
        """Return l_u of histories of some lengths, (users,)."""
        logs = np.log(np.maximum(lengths, 1).astype(np.float64))
        return np.asarray((logs - self.length_mean) / self.length_scale)

    def of(self, name: str, length: Float64) -> Float64:
        """Return a_f + l_u b_f, (users,)."""
        a, b = getattr(self, name)
        return np.asarray(a + b * length)


FEATURES = tuple(f.name for f in fields(RankingWeights) if not f.name.startswith("length_"))


@dataclass(frozen=True)
class ComponentsScore:
    """P[y | u] = sum_k P[y | k] P[k | u] (paper, equation 9). item_probs: O, (D, K)."""

    item_probs: Array
    parts: ClassVar[tuple[Part, ...]] = ()

    def __call__(self, rows: Histories, *, exclude_seen: bool) -> tuple[Array, dict[str, Array]]:
        return np.asarray(rows.memberships @ self.item_probs.T), {}


@dataclass(frozen=True)
class LogitScore:
    """The score by features.

    items: features of the item alone, name -> (D,).  newest: the day that own items are seen from.
    least_share: s, the share of a user's best value below which a part's logarithm levels off.
        .1 on later days, where .5 loses 0 to 5 % of nDCG@20. What is hidden lies among items of
        the same days, and teaches to trust the nearest ones too much: .5 is within 1 % of .1 on
        items hidden at random in three logs, and 4 % better on the last ones of the rows of
        Gowalla, which are in the order of time.
    """

    parts: tuple[Part, ...]
    weights: RankingWeights
    items: Mapping[str, Float64]
    newest: int = 0
    least_share: float = 0.1
    own: tuple[str, ...] = OWN_FEATURES
    _known: dict[tuple[str, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    def part_terms(self, part: Part, raw: Array, rows: Histories, best: Array) -> Array:
        """Return what a part adds to some items, (users, n). raw: its values there, written to."""
        logs = self._logarithms(raw, best)
        length = self.weights.standardised(rows.lengths)
        logs *= self.weights.of(part.name, length)[:, None].astype(logs.dtype)
        return logs

    @property
    def names(self) -> tuple[str, ...]:
        """The features in their order."""
        return (*(part.name for part in self.parts), *self.items, *self.own)

    def __call__(self, rows: Histories, *, exclude_seen: bool) -> tuple[Array, dict[str, Array]]:
        """Scores, (users, D), and a user's best value of each part, of unseen items if so asked."""
        bests: dict[str, Array] = {}
        total = self.item_terms(self.items, rows.lengths)
        for part in self.parts:
            scores = part.scores(rows)
            bests[part.name] = best_value(scores, rows.seen if exclude_seen else None)
            total += self.part_terms(part, scores, rows, bests[part.name])
        if not exclude_seen:
            total[rows.seen] += self.own_terms(rows)
        return total, bests

    def features(
        self,
        rows: Histories,
        items: Array,
        scores: Mapping[str, Array],
        bests: Mapping[str, Array],
    ) -> Array:
        """Features (users, n, features) of items (users, n), by scores (users, D) of parts."""
        z = [
            self._logarithms(np.take_along_axis(scores[part.name], items, axis=1), bests[part.name])
            for part in self.parts
        ]
        z += [values[items].astype(np.float32) for values in self.items.values()]
        if self.own:
            position = rows.entries_of(items)
            own = np.concatenate([self.own_features(rows), np.zeros((1, len(self.own)))])
            z += list(np.moveaxis(own[position].astype(np.float32), 2, 0))
        return np.stack(z, axis=2)

    def own_features(self, rows: Histories) -> Float64:
        """Return had, times and since of every entry of the histories, (entries, 3)."""
        had = np.ones(rows.X.nnz)
        times, since = np.log(np.maximum(rows.X.data, 1.0)), np.zeros(rows.X.nnz)
        if rows.last_days is not None:
            since = np.log1p(np.maximum(self.newest - rows.last_days.data, 0.0))
        return np.stack([had, times, since], axis=1)

    def item_terms(
        self, names: Iterable[str], lengths: Array, items: Array | slice = slice(None)
    ) -> Array:
        """What features of items alone add, (users, D), or to `items` (users, n)."""
        level, slope = self._vectors(tuple(names))
        length = self.weights.standardised(lengths).astype(np.float32)
        return np.asarray(level[items] + length[:, None] * slope[items])

    def _vectors(self, names: tuple[str, ...]) -> tuple[Array, Array]:
        """Return their sum, (D,), at the mean length and for each l_u; its mean over users is 0."""
        if names not in self._known:
            users = np.expm1(self.items["users"])
            mean_over = users / max(users.sum(), 1.0)
            sums = np.zeros((2, len(users)))
            for name in names:
                centred = self.items[name] - mean_over @ self.items[name]
                sums += np.outer(getattr(self.weights, name), centred)
            self._known[names] = tuple(sums.astype(np.float32))
        return self._known[names]

    def own_terms(self, rows: Histories) -> Array:
        """Return what it adds to an item that the user had it, (entries,)."""
        length = self.weights.standardised(rows.lengths)
        own = np.stack([self.weights.of(name, length) for name in OWN_FEATURES], axis=1)
        return np.einsum("ef,ef->e", self.own_features(rows), own[rows.seen[0]]).astype(np.float32)

    def _logarithms(self, scores: Array, best: Array) -> Array:
        """Return log(1 + r / s) / log(1 + 1 / s), r = scores / best, in place: (users, n)."""
        scores = np.maximum(scores, 0.0, out=scores)
        scores *= (1 / (self.least_share * best)).astype(scores.dtype)[:, None]
        np.log1p(scores, out=scores)
        scores *= scores.dtype.type(1 / np.log1p(1 / self.least_share))
        return scores


def best_value(scores: Array, seen: tuple[Array, ...] | None) -> Float64:
    """The largest score of every row outside of the entries `seen`; 1 where all is rounding."""
    if seen is None:
        best = largest = scores.max(axis=1, initial=0.0)
    else:
        own = scores[seen]
        scores[seen] = -np.inf
        best = scores.max(axis=1, initial=0.0)
        scores[seen] = own
        largest = best.copy()
        np.maximum.at(largest, seen[0], own)
    rounding = np.maximum(np.finfo(best.dtype).eps * largest, _NOTHING)
    return np.where(best > rounding, best, 1.0).astype(np.float64)


def weights_from(values: Mapping[str, Any]) -> RankingWeights:
    """Return weights from plain values, as `asdict` gave them and JSON brought them back."""
    plain: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    return RankingWeights(**plain)


Score = ComponentsScore | LogitScore
