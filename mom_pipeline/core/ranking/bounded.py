"""The exact best n of a score for one user or for all, without reading the whole of it.

Components: of the items, sorted by the right side, only those are read that can reach a list.

    P[y | u] = sum_k P[y | k] P[k | u]  <=  max_k P[y | k]

Many users read tiers of the items as matrix products, until no user needs more. For a few users
only the components that matter to them are read first:

    P[y | u]  <=  sum_(k read) P[y | k] P[k | u]  +  |P[k not read | u]| |P[y | .]|
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy.linalg import get_blas_funcs

from mom_pipeline.core.ranking.list_rules import NO_RULES, ListRules
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import ComponentsScore, Score
from mom_pipeline.core.ranking.topn import BestItems, Progress, hide_seen, top_n, user_blocks
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Up to this many users are scored one by one.
_FEW_USERS = 4
# The bounds hold for exact sums; a sum in single precision may exceed them by rounding.
_ROUNDING = 1 + 1e-4
# One user: items read before the bound is first checked, components read between two checks, and
# how many items read for one component cost as much as one item scored in full.
_FIRST_ITEMS_OF_ONE, _COMPONENTS_PER_LOOK, _ITEMS_PER_FULL_SCORE = 2048, 4, 64
# Many users: a catalogue of fewer than this many times n K items is one tier, since its bounds
# would rule out too little.
_ITEMS_PER_REACHING = 4
# The first tier: at least the first number of items, and the second for every position of a list.
_FIRST_ITEMS, _FIRST_ITEMS_PER_POSITION = 1024, 10
# By how much the next tier is larger, and how many tiers ahead users go at most: what they read
# there raises the score to reach.
_GROWTH, _TIERS_AHEAD = 0.25, 8
# Scores of a block of users: few enough for a core's cache, unless too few users would be left;
# never more than a thread may hold.
_SCORES_IN_CACHE, _SCORES_IN_MEMORY = 1_000_000, 32_000_000
_FEWEST_USERS, _MOST_USERS = 128, 1024
# The whole catalogue: some 10 MB of scores for each part and thread, or more for enough users.
_SCORES_PER_BLOCK, _USERS_PER_BLOCK = 2_500_000, 256
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
        if self._components is not None:
            hidden = rows.X if exclude_seen else None
            self._components.fill(best, rows.memberships, hidden, progress)
            return best
        for part in self.score.parts:
            best.values[part.name] = np.empty(len(best.items))
        self._fill_blocks(best, rows, exclude_seen)
        progress(1.0)
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

    def prepare(self) -> None:
        """Compute now what the first question would otherwise wait for."""
        if self._components is not None:
            _ = self._components.by_component

    @cached_property
    def _components(self) -> "BoundedComponents | None":
        """O in the order of what its items can score, where the components alone rank."""
        if not isinstance(self.score, ComponentsScore):
            return None
        O, boosts = self.score.item_probs, self.rules.boosts
        boosted = O if boosts is None else O * boosts[:, None].astype(O.dtype)
        return BoundedComponents.from_probs(boosted, self.candidates)

    @cached_property
    def _no_candidates(self) -> Array:
        return np.flatnonzero(~self.candidates)

    def _fill_blocks(self, best: BestItems, rows: Histories, exclude_seen: bool) -> None:
        """Score the whole catalogue, a block of users at a time."""
        n, D = best.items.shape[1], rows.X.shape[1]
        most = min(max(_SCORES_PER_BLOCK // max(D, 1), _USERS_PER_BLOCK), _MOST_USERS)

        def block(some: slice) -> None:
            own = rows.block(some)
            scores, values = self.score(own, exclude_seen=exclude_seen)
            if self.added is not None:
                scores += self.added
            scores[:, self._no_candidates] = -np.inf
            if exclude_seen:
                hide_seen(scores, own.X)
            items, best_scores = top_n(scores, n)
            best.items[some, : items.shape[1]] = items
            best.scores[some, : items.shape[1]] = best_scores
            for name, value in values.items():
                best.values[name][some] = value

        map_blocks(block, user_blocks(len(best.items), D, most))


@dataclass(frozen=True)
class _Tier:
    """The items of the highest bounds, in the order of their positions."""

    items: Array  # (L,), rising
    item_probs: Array  # (L, K)
    positions: Array  # (D,) the row of each item, or -1

    def best(self, P: Array, hidden: Csr | None, n: int) -> tuple[Array, Array]:
        """The n best items of the tier as `top_n` has them. P: (users, K). hidden: (users, D)."""
        scores = P @ self.item_probs.T
        if hidden is not None:
            owners = np.repeat(np.arange(len(P)), np.diff(hidden.indptr))
            columns = self.positions[hidden.indices]
            scores[owners[columns >= 0], columns[columns >= 0]] = -np.inf
        best, values = top_n(scores, n)
        return np.where(best < 0, -1, self.items[best]), values


@dataclass(frozen=True)
class BoundedComponents:
    """O, and the candidates among its items in the order of what they can score at most."""

    item_probs: Array  # (D, K)
    order: Array  # (candidates,)
    bounds: Array  # (candidates,), negated, so that they rise

    @classmethod
    def from_probs(cls, item_probs: Array, candidates: Array | None = None) -> Self:
        """Sort the items once. item_probs: (D, K).  candidates: (D,) of bool; None for all."""
        bounds = -item_probs.max(axis=1) * item_probs.dtype.type(_ROUNDING)
        order = np.argsort(bounds, kind="stable")
        if candidates is not None:
            order = order[candidates[order]]
        return cls(item_probs, order, bounds[order])

    def fill(
        self,
        best: BestItems,
        P: Array,
        hidden: Csr | None,
        progress: Progress = lambda share: None,
    ) -> None:
        """Write the best items of P (N, K) that score, none of hidden (N, D), to `best`."""
        if len(P) <= _FEW_USERS:
            for user, own in enumerate(P):
                seen = self.order[:0]
                if hidden is not None:
                    seen = hidden.indices[hidden.indptr[user] : hidden.indptr[user + 1]]
                items, scores = self._best_of_one(own, best.items.shape[1], seen)
                best.items[user, : len(items)], best.scores[user, : len(items)] = items, scores
        else:
            self._fill_by_tiers(best, P, hidden, progress)
        best.items[best.scores <= 0] = -1

    def _fill_by_tiers(
        self, best: BestItems, P: Array, hidden: Csr | None, progress: Progress
    ) -> None:
        n = best.items.shape[1]

        def read(tier: _Tier, users: Array) -> Array:
            items, values = tier.best(P[users], None if hidden is None else hidden[users], n)
            width = items.shape[1]
            best.items[users, :width], best.scores[users, :width] = items, values
            return self._reaching(best.scores[users, -1])

        sizes = self._tier_sizes(n)
        next_tier = np.zeros(len(P), dtype=np.int64)
        for number, size in enumerate(sizes):
            waiting = np.flatnonzero(next_tier == number)
            if len(waiting):
                reaching = map_blocks(partial(read, self._tier(size)), _blocks(waiting, size))
                # Who needs no more than this tier is done: the loop does not come back to it.
                needed = np.searchsorted(sizes, np.concatenate(reaching))
                next_tier[waiting] = np.minimum(needed, number + _TIERS_AHEAD)
                progress(float((next_tier <= number).mean()))

    def _tier_sizes(self, n: int) -> list[int]:
        """Return the numbers of items of the tiers, rising; the last one holds them all."""
        whole, sizes = len(self.order), []
        if whole >= _ITEMS_PER_REACHING * n * self.item_probs.shape[1]:
            size = max(_FIRST_ITEMS, _FIRST_ITEMS_PER_POSITION * n)
            while 2 * size < whole:
                sizes.append(size)
                size += max(1, int(_GROWTH * size))
        return [*sizes, whole] if whole else []

    def _tier(self, size: int) -> _Tier:
        D = len(self.item_probs)
        if size == D:
            return _Tier(np.arange(D), self.item_probs, np.arange(D))
        items = np.sort(self.order[:size])
        positions = np.full(D, -1)
        positions[items] = np.arange(size)
        return _Tier(items, self.item_probs[items], positions)

    def _reaching(self, least: Array) -> Array:
        """Return how many items may reach the last score of each list, (users,)."""
        return np.searchsorted(self.bounds, -least.astype(self.bounds.dtype), side="right")

    @cached_property
    def by_component(self) -> tuple[Array, Array, Array]:
        """O by component and candidate, (K, candidates), |P[y | .]|, and where each item stands."""
        positions = np.full(len(self.item_probs), -1)
        positions[self.order] = np.arange(len(self.order))
        by_component = np.ascontiguousarray(self.item_probs[self.order].T)
        norms = np.linalg.norm(by_component, axis=0) * by_component.dtype.type(_ROUNDING)
        return by_component, norms, positions

    def _best_of_one(self, P: Array, n: int, seen: Array) -> tuple[Array, Array]:
        """Return the n best items of one user and their scores. P: (K,).  seen: no candidates."""
        _, _, positions = self.by_component
        P = P.astype(self.item_probs.dtype, copy=False)
        is_hidden = np.zeros(len(self.order) + 1, dtype=bool)  # the last one for no candidates
        is_hidden[positions[seen]] = True
        ranks, values = np.empty(0, dtype=np.int64), np.empty(0, dtype=P.dtype)
        read, stop = 0, min(max(_FIRST_ITEMS_OF_ONE, 4 * n), len(self.order))
        least = -np.inf
        while read < stop:
            reaching, scores = self._reaching_one(P, read, stop, least)
            shown = ~is_hidden[reaching]
            ranks = np.concatenate([ranks, reaching[shown]])
            values = np.concatenate([values, scores[shown]])
            least = _nth_largest(values, n) / _ROUNDING
            ranks, values = ranks[values >= least], values[values >= least]
            read = stop
            # Twice as far at most: what is read meanwhile raises the score to reach.
            reachable = np.searchsorted(self.bounds, self.bounds.dtype.type(-least), side="right")
            stop = min(2 * read, int(reachable))
        items = self.order[ranks]
        # Once more and all alike: equal items get equal scores, whichever way they were read.
        values = self.item_probs[items] @ P
        ranked = np.lexsort((items, -values))[:n]
        return items[ranked], values[ranked]

    def _reaching_one(self, P: Array, read: int, stop: int, least: float) -> tuple[Array, Array]:
        """Return the ranks from read to stop whose items reach a score, and what they score."""
        by_component, norms, _ = self.by_component
        by_component, norms = by_component[:, read:stop], norms[read:stop]
        if least <= 0:
            return np.arange(read, stop), P @ by_component
        (axpy,) = get_blas_funcs(("axpy",), (by_component,))
        sums = np.zeros(stop - read, dtype=P.dtype)
        largest_first = np.argsort(-P)
        squares = np.square(P[largest_first])[::-1].cumsum()[::-1]
        unread = np.sqrt(np.append(squares, 0.0)).tolist()
        ranks = np.arange(len(sums))
        for start in range(0, len(P), _COMPONENTS_PER_LOOK):
            if len(ranks) * _ITEMS_PER_FULL_SCORE <= len(sums):
                break
            for k in largest_first[start : start + _COMPONENTS_PER_LOOK].tolist():
                sums = axpy(by_component[k], sums, a=P[k])
            left = P.dtype.type(unread[min(start + _COMPONENTS_PER_LOOK, len(P))])
            ranks = np.flatnonzero(sums + left * norms >= least / _ROUNDING)
        ranks += read
        return ranks, self.item_probs[self.order[ranks]] @ P


def _nth_largest(scores: Array, n: int) -> float:
    """Return the n-th largest score, minus infinity when there are fewer."""
    if len(scores) < n:
        return -np.inf
    return float(np.partition(scores, -n)[-n])


def _blocks(users: Array, size: int) -> list[Array]:
    """Cut the users so that their scores of `size` items fit a block."""
    length = min(max(_SCORES_IN_CACHE // size, _FEWEST_USERS), _MOST_USERS)
    length = max(min(length, _SCORES_IN_MEMORY // size), 1)
    return [users[start : start + length] for start in range(0, len(users), length)]
