"""The exact best N of P[item | user] for everybody, without reading the whole of O.

    P[y | u] = sum_k P[y | k] P[k | u]  <=  max_k P[y | k]

The right side does not depend on the user. The items that it ranks highest give every user an
N-th best score so far, and with it the number of items that can still reach the list. Users who
need about as many items read them together, as one matrix product, until nobody needs more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.bounded_top import item_bounds
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

# Each class brings some n items that can reach a list of n. A catalogue of fewer than so many
# times all of these is one shelf: its bounds would rule out too little to be worth a look.
_ITEMS_PER_REACHING = 4
# The first shelf: at least so many items, and so many for every place of the list.
_FIRST_ITEMS, _FIRST_ITEMS_PER_PLACE = 1024, 10
# By how much the next shelf is larger: users read so much more than they need at most.
_GROWTH = 0.25
# How many shelves ahead users go at most, some six times as many items: what they read there
# raises the score to reach, and few need more.
_SHELVES_AHEAD = 8
# Scores of a block of users, in numbers: few enough to stay in a core's cache, unless so few
# users would be left that reading the items takes the time; never more than a thread may hold.
_SCORES_IN_CACHE, _SCORES_IN_MEMORY = 1_000_000, 32_000_000
_FEWEST_USERS, _MOST_USERS = 128, 1024


@dataclass(frozen=True)
class _Shelf:
    """The items of the highest bounds, in the order of their positions.

    items: (L,), rising.  item_probs: (L, K).  places: (D,), the row of each item, or -1.
    """

    items: Array
    item_probs: Array
    places: Array

    def best(self, P: Array, X: Csr | None, n: int) -> tuple[Array, Array]:
        """Return the n best items of the shelf and their scores, as `top_n` does.

        P: (users, K).  X: (users, D), what is hidden from them.
        """
        scores = P @ self.item_probs.T
        if X is not None:
            owners, places = np.repeat(np.arange(len(P)), np.diff(X.indptr)), self.places[X.indices]
            scores[owners[places >= 0], places[places >= 0]] = -np.inf
        best, values = top_n(scores, n)
        return np.where(best < 0, -1, self.items[best]), values


@dataclass(frozen=True)
class BoundedLists:
    """O, and the candidates among its items in the order of what they can score at most.

    item_probs: (D, K).  order: (candidates,).  bounds: (candidates,), negated, so that they rise.
    """

    item_probs: Array
    order: Array
    bounds: Array

    @classmethod
    def of(cls, item_probs: Array, candidates: Array | None = None) -> Self:
        """Sort the items once. item_probs: (D, K).  candidates: (D,) of bool; None for all."""
        bounds = -item_bounds(item_probs)
        order = np.argsort(bounds, kind="stable")
        if candidates is not None:
            order = order[candidates[order]]
        return cls(item_probs, order, bounds[order])

    def best(
        self,
        X: Csr,
        P: Array,
        n: int,
        *,
        exclude_seen: bool = True,
        progress: Callable[[float], None] = lambda share: None,
    ) -> tuple[Array, Array]:
        """Return the n best items of every user, int32, and their scores, (N, n) each.

        X: (N, D).  P: (N, K), rows sum to 1. Ties go to the lower item position. A user with
        fewer than n candidates gets a short list, filled with -1 and a score of 0.
        """
        if n < 1:
            raise InvalidSetting(f"n must be at least 1, found {n}")
        ids = np.full((X.shape[0], n), -1, dtype=np.int32)
        scores = np.zeros((X.shape[0], n), dtype=np.result_type(P, self.item_probs))

        def read(shelf: _Shelf, users: Array) -> Array:
            best, values = shelf.best(P[users], X[users] if exclude_seen else None, n)
            ids[users, : best.shape[1]], scores[users, : best.shape[1]] = best, values
            return self._reaching(scores[users, -1])

        sizes = self._shelf_sizes(n)
        next_shelf = np.zeros(X.shape[0], dtype=np.int64)
        for number, size in enumerate(sizes):
            waiting = np.flatnonzero(next_shelf == number)
            if len(waiting):
                reaching = map_blocks(partial(read, self._shelf(size)), _blocks(waiting, size))
                # Who needs no more than this shelf is done: the loop does not come back to it.
                needed = np.searchsorted(sizes, np.concatenate(reaching))
                next_shelf[waiting] = np.minimum(needed, number + _SHELVES_AHEAD)
                progress(float((next_shelf <= number).mean()))
        return ids, scores

    def _shelf_sizes(self, n: int) -> list[int]:
        """Return the numbers of items of the shelves, rising; the last one holds them all."""
        whole, sizes = len(self.order), []
        if whole >= _ITEMS_PER_REACHING * n * self.item_probs.shape[1]:
            size = max(_FIRST_ITEMS, _FIRST_ITEMS_PER_PLACE * n)
            while 2 * size < whole:
                sizes.append(size)
                size += max(1, int(_GROWTH * size))
        return [*sizes, whole] if whole else []

    def _shelf(self, size: int) -> _Shelf:
        D = len(self.item_probs)
        if size == D:
            return _Shelf(np.arange(D), self.item_probs, np.arange(D))
        items = np.sort(self.order[:size])
        places = np.full(D, -1)
        places[items] = np.arange(size)
        return _Shelf(items, self.item_probs[items], places)

    def _reaching(self, least: Array) -> Array:
        """Return how many items may score as much as the last of each list, (users,).

        least: (users,), 0 for a short list, which every item may reach.
        """
        return np.searchsorted(self.bounds, -least.astype(self.bounds.dtype), side="right")


def _blocks(users: Array, size: int) -> list[Array]:
    """Cut the users so that their scores of `size` items fit a block."""
    length = min(max(_SCORES_IN_CACHE // size, _FEWEST_USERS), _MOST_USERS)
    length = max(min(length, _SCORES_IN_MEMORY // size), 1)
    return [users[start : start + length] for start in range(0, len(users), length)]
