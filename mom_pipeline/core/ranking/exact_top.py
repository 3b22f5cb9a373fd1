"""The exact best n of a score for one user or for all, by rules: the whole catalogue in blocks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from mom_pipeline.core.ranking.list_rules import NO_RULES, ListRules
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import ComponentsScore, Score
from mom_pipeline.core.ranking.topn import BestItems, Progress, hide_seen, top_n, user_blocks
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

# The whole catalogue: some 10 MB of scores for each part and thread, or more for enough users.
_SCORES_PER_BLOCK, _USERS_PER_BLOCK, _MOST_USERS = 2_500_000, 256, 1024
# Items for each one of a list that rules pick from at first, and how many times as many then.
_POOL = 4


@dataclass(frozen=True)
class ExactTop:
    """The best items by a score and rules."""

    score: Score
    candidates: Array  # (D,) of bool; no other item is ever listed
    rules: ListRules = NO_RULES
    similar: Callable[[int], Array] = np.zeros  # see `ListRules.pick`

    def best(
        self,
        rows: Histories,
        n: int,
        *,
        exclude_seen: bool = True,
        progress: Progress = lambda share: None,
    ) -> BestItems:
        """Return the n best items of every user; ties go to the lower item position."""
        if self.rules.reorder:
            return self._reordered(rows, n, exclude_seen)
        best = BestItems.empty(rows.X.shape[0], n)
        for part in self.score.parts:
            best.values[part.name] = np.empty(len(best.items))
        self._fill_blocks(best, rows, exclude_seen, progress)
        return best

    def _reordered(self, rows: Histories, n: int, exclude_seen: bool) -> BestItems:
        """Pick from ever more of the best, until no other item could come in."""
        lists, size = BestItems.empty(rows.X.shape[0], n), min(_POOL * n, len(self.candidates))
        waiting = np.arange(len(lists.items))
        while len(waiting):
            pool = self.by_score.best(rows.block(waiting), size, exclude_seen=exclude_seen)
            for name, values in pool.values.items():
                lists.values.setdefault(name, np.empty(len(lists.items)))[waiting] = values
            left = []
            for user, items, scores in zip(waiting, pool.items, pool.scores, strict=True):
                known = int((items >= 0).sum())
                whole = known < size or size == len(self.candidates)
                likely = self.likely(scores[:known])
                own = self.rules.pick(items[:known], likely, n, self.similar, whole=whole)
                if own is None:
                    left.append(user)
                else:
                    lists.items[user, : len(own)] = items[own]
                    lists.scores[user, : len(own)] = scores[own]
            waiting, size = np.array(left, dtype=np.int64), min(_POOL * size, len(self.candidates))
        return lists

    @cached_property
    def by_score(self) -> Self:
        """The same without groups and diversity."""
        return replace(self, rules=replace(self.rules, max_per_group=0, diversity=0.0))

    def likely(self, scores: Float64) -> Float64:
        """Return how likely items are beside the first, the best. scores: (n,), falling."""
        if isinstance(self.score, ComponentsScore):
            return scores / max(scores[:1].max(initial=0.0), np.finfo(np.float64).tiny)
        return np.exp(scores - scores[:1].max(initial=-np.inf))

    def among(self, items: Array) -> Self:
        """Return the same among some of the items. items: (D,) of bool."""
        return replace(self, candidates=self.candidates & items)

    @cached_property
    def added(self) -> Array | None:
        """What boosts add to the score, (D,): the odds of an item times its boost."""
        boosts = self.rules.boosts
        return None if boosts is None else np.log(boosts).astype(np.float32)

    @cached_property
    def _no_candidates(self) -> Array:
        return np.flatnonzero(~self.candidates)

    def _fill_blocks(
        self, best: BestItems, rows: Histories, exclude_seen: bool, progress: Progress
    ) -> None:
        """Score the whole catalogue, a block of users at a time."""
        n, D = best.items.shape[1], rows.X.shape[1]
        most = min(max(_SCORES_PER_BLOCK // max(D, 1), _USERS_PER_BLOCK), _MOST_USERS)

        def block(some: slice) -> None:
            own = rows.block(some)
            scores, values = self.score(own, exclude_seen=exclude_seen)
            if isinstance(self.score, ComponentsScore):
                scores = self._as_probabilities(scores)
            elif self.added is not None:
                scores += self.added
            scores[:, self._no_candidates] = -np.inf
            if exclude_seen:
                hide_seen(scores, own.X)
            items, best_scores = top_n(scores, n)
            best.items[some, : items.shape[1]] = items
            best.scores[some, : items.shape[1]] = best_scores
            for name, value in values.items():
                best.values[name][some] = value
            progress(some.stop / len(best.items))

        map_blocks(block, user_blocks(len(best.items), D, most))

    def _as_probabilities(self, scores: Array) -> Array:
        """Return P[item | user] times its boost; an item that no component brings is not listed."""
        boosts = self.rules.boosts
        scores = scores if boosts is None else scores * boosts.astype(scores.dtype)
        scores[scores <= 0] = -np.inf
        return scores
