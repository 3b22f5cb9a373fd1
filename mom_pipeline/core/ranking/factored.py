"""The exact best n by all parts, where the dense ones are read for few of the items.

The low-pass part and the components are products of a user's factors and an item's:

    score_y = t_y (base_y + sum_p f_p a_p . F_py),     |a_p . F_py| <= |a_p| |F_py|

base: the other parts, mostly sums over the neighbours of a history.  t: the trend.  f_p: the
weight over the best unseen a_p . F_py.  |F_py| falls steeply with the popularity of y. So the
items are sorted by it once, a head of them is read as one matrix product, and of any other item

    |score_y - t_y base_y|  <=  slack  =  sum_p f_p |a_p| max_(y outside of the head) t_y |F_py|

It is read only where t_y base_y + slack reaches a score that n items have. A user with too many
such items, or whose best unseen item may lie outside of the head, reads a longer head.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Self

import numpy as np

from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Components, FactoredPart, Histories
from mom_pipeline.core.ranking.score import Score, largest_unseen, or_one
from mom_pipeline.core.ranking.topn import (
    BestItems,
    Progress,
    best_entries,
    hide_seen,
    nth_largest_bound,
    user_blocks,
)
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array

# The bounds hold for exact sums; a sum in single precision may exceed them by rounding.
_ROUNDING = 1e-4
# Items of the first head, by how much the next one is longer, and the largest share of all items.
_FIRST_ITEMS, _GROWTH, _LONGEST_SHARE = 2048, 4, 0.25
# The share of the first block of users that a head must settle to be read for the others.
_LEAST_SETTLED = 0.5
# Multiply-adds of a user that the first head must save: as long as the selection after it takes.
_LEAST_SAVED = 6_000_000
# Users whose head is read as one product, and scores of some of them, in numbers: few enough to
# stay in a core's cache.
_USERS_PER_BLOCK = 128
_SCORES_IN_CACHE = 1_600_000


@dataclass(frozen=True)
class _Head:
    """The items of the largest bounds, in the order of their positions.

    items: (L,), rising.  positions: (D,), the row of each item, or -1.  parts: of these items.
    largest, largest_trended: of |F_py| and of t_y |F_py| over the other items, (parts,).
    """

    items: Array
    positions: Array
    parts: tuple[FactoredPart, ...]
    largest: Array
    largest_trended: Array

    def seen(self, rows: Histories) -> tuple[Array, Array]:
        """Return row and column of every item of a history that is in the head."""
        users, items = rows.seen
        columns = self.positions[items]
        return users[columns >= 0], columns[columns >= 0]


@dataclass(frozen=True)
class _Side:
    """The users' side of a part, after a head.

    a: (users, rank).  factor: f, (users,).  lengths: f |a|, (users,).  head: f a . F_y of its
    items, (users, L).  sure: (users,), whether f is that of the whole catalogue.
    """

    part: FactoredPart
    a: Array
    factor: Array
    lengths: Array
    head: Array
    sure: Array

    def block(self, users: slice) -> "_Side":
        """Return the side of some of the users."""
        own = (self.a, self.factor, self.lengths, self.head, self.sure)
        return _Side(self.part, *(array[users] for array in own))


@dataclass(frozen=True)
class BoundedFactors:
    """A score, and its items in the order of what its factored parts can add.

    norms: |F_py|, (parts, D).  order: (D,), items, the largest first.
    """

    score: Score
    norms: Array
    order: Array

    @classmethod
    def from_score(
        cls, score: Score, n_items: int, *, least_saved: int | None = None
    ) -> Self | None:
        """Sort the items once; None where the whole catalogue is read as quickly.

        least_saved: multiply-adds of a user that are worth it; None for what was measured.
        """
        parts, least_saved = _factored(score), _LEAST_SAVED if least_saved is None else least_saved
        saved = sum(part.rank for part, _ in parts) * (n_items - _FIRST_ITEMS)
        if saved < least_saved or n_items * _LONGEST_SHARE < _FIRST_ITEMS:
            return None
        norms = np.stack([part.norms() for part, _ in parts]) * (1 + _ROUNDING)
        shares = norms / np.maximum(norms.max(axis=1, keepdims=True), np.finfo(norms.dtype).tiny)
        weights = np.array([weight for _, weight in parts])
        order = np.argsort(-(weights @ shares) * score.trend_at(np.arange(n_items)), kind="stable")
        return cls(score, norms, order)

    def fill(
        self,
        best: BestItems,
        rows: Histories,
        excluded: Array,
        exclude_seen: bool,
        progress: Progress,
    ) -> Array:
        """Write the lists and factors of the users whom a head settles; return the others, rising.

        best: empty lists with room for the factors.  excluded: items that are never listed.
        """
        (N, D), n = rows.X.shape, best.items.shape[1]
        at_a_time = min(max(_SCORES_IN_CACHE // D, 1), _USERS_PER_BLOCK)

        def read(head: _Head, users: Array) -> Array:
            own = rows.block(users)
            sides, settled = self._sides(head, own), []
            for part in user_blocks(len(users), D, at_a_time):
                few = own.block(part)
                base, factors = self._base(few)
                base[:, excluded] = -np.inf
                if exclude_seen:
                    hide_seen(base, few.X)
                some = [side.block(part) for side in sides]
                done, items, scores = self._best(head, base, some, n)
                settled.append(done)
                listed = users[part][done]
                best.items[listed], best.scores[listed] = items[done], scores[done]
                factors |= {side.part.name: side.factor for side in some}
                for name, factor in factors.items():
                    best.factors[name][listed] = factor[done]
            return np.concatenate(settled)

        left = np.arange(N)
        for size in self._sizes:
            if len(left):
                one = partial(read, self._head(size))
                blocks = np.split(left, range(_USERS_PER_BLOCK, len(left), _USERS_PER_BLOCK))
                settled = map_blocks(one, blocks[:1])
                if settled[0].mean() >= _LEAST_SETTLED:
                    settled += map_blocks(one, blocks[1:])
                left = np.delete(left, np.flatnonzero(np.concatenate(settled)))
                progress(1 - len(left) / N)
        return left

    def _sides(self, head: _Head, rows: Histories) -> list[_Side]:
        sides, seen = [], head.seen(rows)
        for number, (part, weight) in enumerate(self._parts):
            a = part.user_factors(rows)
            products = head.parts[number].products(a)
            best, largest = largest_unseen(products, seen)
            factor, lengths = weight / or_one(best, largest), np.linalg.norm(a, axis=1)
            # Above what any other item can have, and above the rounding of what any item has.
            rounding = np.finfo(a.dtype).eps * self.norms[number].max()
            sure = (lengths == 0) | (best > lengths * max(head.largest[number], rounding))
            products *= factor[:, None].astype(products.dtype)
            sides.append(_Side(part, a, factor, factor * lengths, products, sure))
        return sides

    def _best(
        self, head: _Head, scores: Array, sides: list[_Side], n: int
    ) -> tuple[Array, Array, Array]:
        """Return who is settled, (users,), and the best items and scores, as `top_n` does.

        scores: (users, D), t_y base_y, -inf where an item is not to be listed; written to.
        """
        scores[:, head.items] += sum(side.head for side in sides) * self._trend_at(head.items)
        settled, most = np.logical_and.reduce([side.sure for side in sides]), len(head.items)
        slack = sum(s.lengths * own for s, own in zip(sides, head.largest_trended, strict=True))
        slack = np.reshape(slack, (-1, 1))
        # The best by what is known so far are read first: they give the score to reach. It is
        # mostly above theirs, so that one look finds all that can reach it.
        nth = nth_largest_bound(scores, n)
        least = nth - slack - _ROUNDING * (np.abs(nth) + slack)
        users, items = _entries(_reaching(scores, least), settled, most)
        first = scores[users, items] >= nth[users, 0]
        self._read(head, scores, sides, users[first], items[first])
        known = scores[users[first], items[first]]
        listed, values = best_entries(known, users[first], items[first], len(scores), n)
        reached = np.where(listed[:, -1] < 0, -np.inf, values[:, -1])
        settled &= reached >= nth[:, 0]
        reached -= _ROUNDING * (np.abs(reached) + slack[:, 0])
        bounds = sum(
            s.lengths[users] * own[items] for s, own in zip(sides, self.norms, strict=True)
        )
        bounds *= self._trend_at(items)
        wanted = scores[users, items] + bounds >= reached[users]
        users, items, unread = users[wanted], items[wanted], ~first[wanted]
        self._read(head, scores, sides, users[unread], items[unread])
        kept = scores[users, items] >= reached[users]
        users, items = users[kept], items[kept]
        return settled, *best_entries(scores[users, items], users, items, len(scores), n)

    def _read(
        self, head: _Head, scores: Array, sides: list[_Side], users: Array, items: Array
    ) -> None:
        """Add the factored parts to scores of items outside of the head.

        scores: (users, D).  users, items: (entries,), by user.
        """
        outside = head.positions[items] < 0
        users, items = users[outside], items[outside]
        added = np.zeros(len(items), np.float32)
        ends = np.searchsorted(users, np.arange(len(scores) + 1))
        for side in sides:
            for user, (start, stop) in enumerate(pairwise(ends.tolist())):
                products = side.part.products(side.a[user], items[start:stop])
                added[start:stop] += products * side.factor[user]
        scores[users, items] += added * self._trend_at(items)

    def _trend_at(self, items: Array) -> Array:
        return self.score.trend_at(items).astype(np.float32)

    @cached_property
    def _parts(self) -> tuple[tuple[FactoredPart, float], ...]:
        return _factored(self.score)

    @cached_property
    def _base(self) -> Score:
        rest = tuple(own for own in self.score.parts if not isinstance(own[0], _FACTORED))
        return replace(self.score, parts=rest)

    @cached_property
    def _sizes(self) -> list[int]:
        sizes, longest = [_FIRST_ITEMS], _LONGEST_SHARE * len(self.order)
        while sizes[-1] * _GROWTH <= longest:
            sizes.append(sizes[-1] * _GROWTH)
        return sizes

    @cached_property
    def _heads(self) -> dict[int, _Head]:
        return {}

    def _head(self, size: int) -> _Head:
        """Return a head, made once."""
        if size not in self._heads:
            items, others = np.sort(self.order[:size]), self.order[size:]
            positions = np.full(len(self.order), -1)
            positions[items] = np.arange(size)
            norms = self.norms[:, others]
            self._heads[size] = _Head(
                items,
                positions,
                tuple(part.among(items) for part, _ in self._parts),
                norms.max(axis=1),
                (norms * self.score.trend_at(others)).max(axis=1),
            )
        return self._heads[size]


_FACTORED = (LowPass, Components)


def _factored(score: Score) -> tuple[tuple[FactoredPart, float], ...]:
    return tuple((part, w) for part, w in score.parts if isinstance(part, _FACTORED))


def _reaching(scores: Array, least: Array) -> Array:
    """Return which scores are as large as the least of their row; none that is -inf."""
    least = np.maximum(least, np.finfo(scores.dtype).min)
    return np.asarray(scores >= least.astype(scores.dtype))


def _entries(chosen: Array, settled: Array, most: int) -> tuple[Array, Array]:
    """Return row and column of what is chosen, in the rows that are settled.

    A row with more than `most` of them is settled no longer.
    """
    settled &= np.array([np.count_nonzero(row) for row in chosen]) <= most
    chosen[~settled] = False
    users, items = np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    return users, items
