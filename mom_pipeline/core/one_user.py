"""The ranking of a fitted model for one history at a time, and what each score is made of."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from mom_pipeline.core.bounded_top import BoundedTop
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.pair_scores import as_binary
from mom_pipeline.core.personalization import memberships_of_one
from mom_pipeline.core.prediction import top_n
from mom_pipeline.core.types import Array, Csr, Float64

POPULARITY, PAIRS, INVERSE, LOW_PASS, CLASSES = (
    "popularity",
    "pairs",
    "inverse",
    "low-pass",
    "classes",
)


@dataclass(frozen=True)
class History:
    """One user's items. items: (n,) positions.  counts: (n,)."""

    items: Array
    counts: Array

    def row(self, n_items: int) -> Csr:
        """Return the history as a matrix of one row, (1, D)."""
        ends = np.array([0, len(self.items)], dtype=self.items.dtype)
        return sparse.csr_array((self.counts, self.items, ends), shape=(1, n_items))


@dataclass(frozen=True)
class Ranked:
    """The best items of a history, with the parts that made their scores.

    items, scores: (n,), best first.  factors: by what each part was multiplied.
    memberships: P[class | user], (K,).  parts: name -> (n,), they sum to the scores.
    """

    items: Array
    scores: Float64
    parts: dict[str, Float64]
    factors: dict[str, float]
    memberships: Array


@dataclass(frozen=True)
class OneUserRanking:
    """Ranks like `FittedModel`, one user at a time and without a pass over all of O."""

    model: FittedModel

    @cached_property
    def class_top(self) -> BoundedTop:
        """Sort O by what its items can score, once."""
        return BoundedTop.of(self.model.item_probs)

    def prepare(self) -> None:
        """Compute now what the first question would otherwise wait for."""
        _ = self.model.smoothed_item_probs
        ranking = self.model.pair_ranking
        _ = self.class_top if ranking is None else (ranking.pairs, ranking.explained)

    def memberships(self, history: History) -> Array:
        """Return P[class | user], (K,); only the history's rows of O are read."""
        model, O = self.model, self.model.smoothed_item_probs[history.items]
        return memberships_of_one(history.counts, O, model.weights, model.personalization)

    def best(self, history: History, n: int, *, exclude_seen: bool = True) -> Ranked:
        """Return the n best items; a short list when there are fewer candidates."""
        P = self.memberships(history)
        hidden = history.items if exclude_seen else history.items[:0]
        ranking = self.model.pair_ranking
        if ranking is None:
            items, scores = self.class_top.best(P, n, hidden)
            return Ranked(items, scores, {CLASSES: scores}, {CLASSES: 1.0}, P)
        parts, factors = self._scaled_parts(history, P, ranking)
        total = sum(parts.values(), np.zeros(self.model.n_items, dtype=np.float32))
        total[hidden] = -np.inf
        best, values = top_n(total[None], n)
        items = best[0][best[0] >= 0]
        own = {name: part[items].astype(np.float64) for name, part in parts.items()}
        return Ranked(items, values[0][: len(items)], own, factors, P)

    def at(self, history: History, items: Array) -> Ranked:
        """Return given items with their scores, in the given order, seen or not."""
        P = self.memberships(history)
        ranking = self.model.pair_ranking
        if ranking is None:
            scores = np.asarray(self.model.item_probs[items] @ P, dtype=np.float64)
            return Ranked(items, scores, {CLASSES: scores}, {CLASSES: 1.0}, P)
        parts, factors = self._scaled_parts(history, P, ranking)
        own = {name: part[items].astype(np.float64) for name, part in parts.items()}
        total = sum(own.values(), np.zeros(len(items)))
        return Ranked(items, total, own, factors, P)

    def _scaled_parts(
        self, history: History, P: Array, ranking: PairRanking
    ) -> tuple[dict[str, Array], dict[str, float]]:
        """Return each part's weighted share of the score, (D,), and its factor.

        As in `ThreeMomentRanking`: each part is divided by its best unseen item.
        """
        w, once = ranking.weights, as_binary(history.row(self.model.n_items))
        raw: dict[str, tuple[float, Array]] = {}
        if w.popularity:
            raw[POPULARITY] = w.popularity, ranking.pairs.item_users.astype(np.float32)
        if w.pairs:
            raw[PAIRS] = w.pairs, self._pair_scores(history, ranking)
        if w.explained and ranking.explained is not None:
            raw[INVERSE] = w.explained, ranking.explained.scores(once)[0]
        if w.low_pass:
            raw[LOW_PASS] = w.low_pass, ranking.low_pass.scores(once, w.low_pass_ridge)[0]
        if w.classes:
            raw[CLASSES] = w.classes, self.model.item_probs @ P
        parts, factors = {}, {}
        for name, (weight, scores) in raw.items():
            own = scores[history.items]
            scores[history.items] = -np.inf
            best = float(scores.max())
            scores[history.items] = own
            factors[name] = weight / (best if best > 0 else 1.0)
            scores *= scores.dtype.type(factors[name])
            parts[name] = scores
        return parts, factors

    def _pair_scores(self, history: History, ranking: PairRanking) -> Array:
        """Return the pair scores of `PairScores` for one user, (D,)."""
        scale = ranking.pairs.scale_at(history.items, ranking.weights.history_exponent)
        sums = ranking.pairs.powers[history.items].T @ scale
        return np.asarray(sums * self._candidate_scale)

    @cached_property
    def _candidate_scale(self) -> Array:
        ranking = self.model.pair_ranking
        if ranking is None:
            raise MomError("a model of the classes alone has no pairs")
        return ranking.pairs.candidate_scale(ranking.weights.candidate_exponent)
