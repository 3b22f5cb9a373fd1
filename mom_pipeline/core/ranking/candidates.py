"""Every part of the three-moment ranking at the few hundred items that any of them puts on top.

The parts are scored once, in small blocks of users; trying weights on what is kept is only
adding up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_scores import ExplainedPairs, PairScores, as_binary
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.ranking.topn import Scorer, hide_seen, top_n
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

CUTOFF = 20
_CANDIDATES_PER_PART = 100
_SCORES_PER_BLOCK = 4_000_000

# A part's name and the setting that it was scored with: ("explained", 5.0), ("classes",).
PartKey = tuple[str | float, ...]


@dataclass(frozen=True)
class Parts:
    """What the candidates are scored by; all of it from the training part of a split.

    pairs: one for each user exponent and sharpness to try.
    history_exponents: to try with each of them.
    explained: by ridge; empty where there are too many items.
    low_pass: by user exponent.  low_pass_ridges: to try with each of them.
    """

    pairs: tuple[PairScores, ...]
    history_exponents: tuple[float, ...]
    explained: dict[float, ExplainedPairs]
    low_pass: dict[float, LowPass]
    low_pass_ridges: tuple[float, ...]
    classes: Scorer

    def at_best(
        self, X: Csr, default: RankingWeights, exclude_seen: bool
    ) -> tuple[Array, dict[PartKey, Array]]:
        """Return the best items of each part, and all parts with all settings at them.

        items: (users, candidates), -1 for none.  The parts: (users, candidates) each, and under
        "seen" whether the item is one of the history.
        """
        once = as_binary(X)
        scores = self._scores(X, once)
        leaders = [scores["classes",].copy()]
        for pairs in self.pairs:
            if pairs.sharpness == default.sharpness:
                sums = scores[*_key(pairs), default.history_exponent]
                leaders.append(sums * pairs.candidate_scale(default.candidate_exponent))
        for low_pass in self.low_pass.values():
            leaders.append(low_pass.scores(once, default.low_pass_ridge))
        if self.explained:
            leaders.append(scores["explained", default.explained_ridge].copy())
        items = _tops(leaders, X, exclude_seen)
        scores["seen",] = once.toarray()
        own = np.maximum(items, 0)
        parts = {key: np.take_along_axis(part, own, axis=1) for key, part in scores.items()}
        for user_exponent, low_pass in self.low_pass.items():
            filtered = low_pass.scores_at(once, own, list(self.low_pass_ridges))
            for ridge, part in zip(self.low_pass_ridges, filtered, strict=True):
                parts["low_pass", user_exponent, ridge] = part
        return items, {key: part.astype(np.float32) for key, part in parts.items()}

    def _scores(self, X: Csr, once: Csr) -> dict[PartKey, Array]:
        """Return all parts but the low-pass one for every item: (users, D) each."""
        scores: dict[PartKey, Array] = {("classes",): self.classes(X)}
        for pairs in self.pairs:
            sums = list(pairs.history_sums(once, list(self.history_exponents)))
            for column, exponent in enumerate(self.history_exponents):
                scores[*_key(pairs), exponent] = np.stack([of_user[:, column] for of_user in sums])
        for ridge, explained in self.explained.items():
            scores["explained", ridge] = explained.scores(once)
        return scores


def _key(pairs: PairScores) -> PartKey:
    return ("pairs", pairs.user_exponent, pairs.sharpness)


@dataclass(frozen=True)
class Candidates:
    """The parts at the candidates of each user: (users, candidates) each.

    items: positions, -1 for none.  item_users: c of each.  test: (users, D) to be found.
    unseen: whether an item stands there that is not of the history.
    """

    items: Array
    unseen: Array
    item_users: Float64
    parts: dict[PartKey, Array]
    test: Csr
    _scaled: dict[PartKey, Array] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        X: Csr,
        test: Csr,
        parts: Parts,
        progress: Callable[[float], None] = lambda share: None,
        *,
        exclude_seen: bool = True,
    ) -> "Candidates":
        """Score all items for histories X, and keep those that any part puts on top.

        exclude_seen: none of the history among them.
        """
        step = max(1, min(64, _SCORES_PER_BLOCK // X.shape[1]))
        starts = range(0, X.shape[0], step)
        done = iter(range(1, len(starts) + 1))
        default = RankingWeights()

        def block(start: int) -> tuple[Array, dict[PartKey, Array]]:
            best = parts.at_best(X[start : start + step], default, exclude_seen)
            progress(next(done) / len(starts))
            return best

        blocks = map_blocks(block, starts)
        items = np.vstack([of_block for of_block, _ in blocks])
        stacked = {key: np.vstack([part[key] for _, part in blocks]) for key in blocks[0][1]}
        item_users = np.maximum(parts.pairs[0].item_users, 1.0)[np.maximum(items, 0)]
        unseen = (items >= 0) & (stacked.pop(("seen",)) == 0)
        return cls(items, unseen, item_users, stacked, test)

    def quality(self, w: RankingWeights) -> Float64:
        """Return the mean of Recall@20, nDCG@20 and MAP@20 of every user."""
        scores = np.where(self.items < 0, -np.inf, 0.0).astype(np.float32)
        for weight, part in (
            (w.pairs, self._pairs),
            (w.explained, lambda w: self._kept("explained", w.explained_ridge)),
            (w.low_pass, lambda w: self._kept("low_pass", w.user_exponent, w.low_pass_ridge)),
            (w.classes, lambda w: self._kept("classes")),
            (w.popularity, lambda w: self._scaled_to_best(self.item_users)),
        ):
            if weight:
                scores += weight * part(w)
        columns, _ = top_n(scores, CUTOFF)
        ids = np.where(columns < 0, -1, np.take_along_axis(self.items, columns, axis=1))
        values = evaluate_ranking(ids, self.test, [CUTOFF]).per_user
        return (values["recall"][:, 0] + values["ndcg"][:, 0] + values["map"][:, 0]) / 3

    def _pairs(self, w: RankingWeights) -> Array:
        kept = ("pairs", w.user_exponent, w.sharpness, w.history_exponent)
        key = (*kept, w.candidate_exponent)
        if key not in self._scaled:
            discount = self.item_users ** -(w.candidate_exponent * w.sharpness)
            self._scaled[key] = self._scaled_to_best(self.parts[kept] * discount)
        return self._scaled[key]

    def _kept(self, *key: str | float) -> Array:
        if key not in self._scaled:
            self._scaled[key] = self._scaled_to_best(self.parts[key])
        return self._scaled[key]

    def _scaled_to_best(self, part: Array) -> Array:
        best = np.where(self.unseen, part, 0).max(axis=1, keepdims=True)
        return np.asarray(part / np.where(best > 0, best, 1.0), dtype=np.float32)


def _tops(parts: list[Array], X: Csr, exclude_seen: bool) -> Array:
    """Return the items that any part puts on top, each once, then -1: (users, candidates).

    Those that are new to the user in any case: the parts are scaled by them. The parts are
    written to.
    """
    best = []
    for part in parts:
        if not exclude_seen:
            best.append(top_n(part, _CANDIDATES_PER_PART)[0])
        hide_seen(part, X)
        best.append(top_n(part, _CANDIDATES_PER_PART)[0])
    items = np.sort(np.hstack(best), axis=1)
    items[:, 1:][items[:, 1:] == items[:, :-1]] = -1
    return items
