"""The ranking of a fitted model for one history at a time, and what each score is made of."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.bounded_low_pass import BoundedLowPass
from mom_pipeline.core.ranking.bounded_top import BoundedTop
from mom_pipeline.core.ranking.memberships import memberships_of_one
from mom_pipeline.core.ranking.pair_scores import ExplainedPairs, as_binary
from mom_pipeline.core.ranking.score import (
    CLASSES,
    INVERSE,
    LOW_PASS,
    PAIRS,
    POPULARITY,
    best_unseen,
)
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr, Float64


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
        if ranking is None:
            _ = self.class_top
            return
        _ = ranking.pairs, ranking.explained, self.low_pass, self._candidate_scale

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
        parts, factors = self._whole_parts(history, P, ranking)
        base = sum(parts.values(), np.zeros(self.model.n_items, dtype=np.float32))
        base[hidden] = -np.inf
        v = self._add_low_pass(history, ranking, factors)
        if v is None:
            best, values = top_n(base[None], n)
            items, scores = best[0][best[0] >= 0], values[0][best[0] >= 0]
        else:
            items, scores = self._best_with_low_pass(base, v, factors[LOW_PASS], n)
        return Ranked(items, scores, self._parts_at(items, parts, v, factors), factors, P)

    def at(self, history: History, items: Array) -> Ranked:
        """Return given items with their scores, in the given order, seen or not."""
        P = self.memberships(history)
        ranking = self.model.pair_ranking
        if ranking is None:
            scores = np.asarray(self.model.item_probs[items] @ P, dtype=np.float64)
            return Ranked(items, scores, {CLASSES: scores}, {CLASSES: 1.0}, P)
        parts, factors = self._whole_parts(history, P, ranking)
        v = self._add_low_pass(history, ranking, factors)
        own = self._parts_at(items, parts, v, factors)
        total = sum(own.values(), np.zeros(len(items)))
        return Ranked(items, total, own, factors, P)

    def _best_with_low_pass(
        self, base: Array, v: Array, factor: float, n: int
    ) -> tuple[Array, Float64]:
        """Return the n best of base + factor low-pass, reading few of its rows.

        base: (D,), -inf where an item is no candidate.
        """
        low_pass = self.low_pass
        most = base + np.float32(factor) * low_pass.bounds(v)

        def totals(items: Array) -> Array:
            return np.asarray(base[items] + np.float32(factor) * low_pass.at(v, items))

        first = np.argpartition(most, -_promising(n, len(most)))[-_promising(n, len(most)) :]
        reached = np.sort(totals(first))[-n] if len(first) >= n else -np.inf
        items = np.flatnonzero((most >= reached) & (base > -np.inf))
        best, values = top_n(totals(items)[None], n) if len(items) else (items[None], items[None])
        return items[best[0]], values[0].astype(np.float64)

    def _add_low_pass(
        self, history: History, ranking: PairRanking, factors: dict[str, float]
    ) -> Array | None:
        """Return the history in the low-pass basis, and note its factor; None without weight."""
        weights = ranking.weights
        if not weights.low_pass:
            return None
        v = self.low_pass.seen_through(history.items, weights.low_pass_ridge)
        best = self.low_pass.largest(v, history.items)
        own = float(self.low_pass.at(v, history.items).max(initial=0.0))
        rounding = np.finfo(v.dtype).eps * max(own, best)
        factors[LOW_PASS] = weights.low_pass / (best if best > rounding else 1.0)
        return v

    def _parts_at(
        self, items: Array, parts: dict[str, Array], v: Array | None, factors: dict[str, float]
    ) -> dict[str, Float64]:
        own = {name: part[items].astype(np.float64) for name, part in parts.items()}
        if v is not None:
            own[LOW_PASS] = factors[LOW_PASS] * self.low_pass.at(v, items).astype(np.float64)
        return own

    def _whole_parts(
        self, history: History, P: Array, ranking: PairRanking
    ) -> tuple[dict[str, Array], dict[str, float]]:
        """Return each part's weighted share of the score, (D,), and its factor; low-pass apart.

        As in `ThreeMomentRanking`: each part is divided by its best unseen item.
        """
        w = ranking.weights
        raw: dict[str, tuple[float, Array]] = {}
        if w.popularity:
            raw[POPULARITY] = w.popularity, ranking.pairs.item_users.astype(np.float32)
        if w.pairs:
            raw[PAIRS] = w.pairs, self._pair_scores(history, ranking)
        if w.explained and ranking.explained is not None:
            raw[INVERSE] = w.explained, self._inverse_scores(history, ranking.explained)
        if w.classes:
            raw[CLASSES] = w.classes, self.model.item_probs @ P
        parts, factors, row = {}, {}, history.row(self.model.n_items)
        for name, (weight, scores) in raw.items():
            factors[name] = weight / float(best_unseen(scores[None], row)[0])
            scores *= scores.dtype.type(factors[name])
            parts[name] = scores
        return parts, factors

    def _pair_scores(self, history: History, ranking: PairRanking) -> Array:
        """Return the pair scores of `PairScores` for one user, (D,)."""
        scale = ranking.pairs.scale_at(history.items, ranking.weights.history_exponent)
        sums = ranking.pairs.powers[history.items].T @ scale
        return np.asarray(sums * self._candidate_scale)

    def _inverse_scores(self, history: History, explained: ExplainedPairs) -> Array:
        return explained.scores(as_binary(history.row(self.model.n_items)))[0]

    @cached_property
    def low_pass(self) -> BoundedLowPass:
        """Compute the norms of the low-pass part, once."""
        return BoundedLowPass.of(self._require_pairs().low_pass)

    @cached_property
    def _candidate_scale(self) -> Array:
        ranking = self._require_pairs()
        return ranking.pairs.candidate_scale(ranking.weights.candidate_exponent)

    def _require_pairs(self) -> PairRanking:
        if self.model.pair_ranking is None:
            raise MomError("a model of the classes alone has no pairs")
        return self.model.pair_ranking


def _promising(n: int, n_items: int) -> int:
    """How many items of the largest bounds are looked at to find a score to reach."""
    return min(4 * n, n_items)
