"""The exact best N of P[item | user] for one user, without reading the whole of O.

    P[y | u] = sum_k P[y | k] P[k | u]  <=  max_k P[y | k]

The right side does not depend on the user. With the items in its order, reading stops where
it falls below the N-th best score found so far; the list is that of the whole catalogue.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.types import Array, Float64

# Items read before the first look at the bound.
_FIRST_ITEMS = 2048
# The bound holds for exact sums; a sum in single precision may exceed it by rounding.
_ROUNDING = 1 + 1e-4


def item_bounds(item_probs: Array) -> Array:
    """Return what each item can score at most, whoever the user: max_k P[y | k], (D,)."""
    return item_probs.max(axis=1) * item_probs.dtype.type(_ROUNDING)


@dataclass(frozen=True)
class BoundedTop:
    """The items in the order of what they can score at most.

    item_probs: (D, K), rows in that order.  order: (D,), the item of each row.
    places: (D,), the row of each item.  bounds: (D,), negated, so that they rise.
    """

    item_probs: Array
    order: Array
    places: Array
    bounds: Array

    @classmethod
    def of(cls, item_probs: Array) -> Self:
        """Sort O once. item_probs: (D, K)."""
        bounds = item_bounds(item_probs)
        order = np.argsort(-bounds, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return cls(np.ascontiguousarray(item_probs[order]), order, places, -bounds[order])

    def best(self, memberships: Array, n: int, hidden: Array) -> tuple[Array, Float64]:
        """Return the n best items and their scores, best first; ties go to the lower position.

        memberships: (K,), sums to 1.  hidden: positions that are no candidates. The list is
        short when fewer candidates exist.
        """
        D = len(self.order)
        skipped = self.places[hidden]
        rows, values = np.empty(0, dtype=np.int64), np.empty(0, dtype=self.item_probs.dtype)
        read, stop = 0, min(max(_FIRST_ITEMS, 4 * n), D)
        least = -np.inf
        while read < stop:
            scores = self.item_probs[read:stop] @ memberships
            scores[skipped[(skipped >= read) & (skipped < stop)] - read] = -np.inf
            # Only what reaches the list so far is looked at again.
            found = np.flatnonzero((scores >= least) & (scores > -np.inf))
            rows = np.concatenate([rows, found + read])
            values = np.concatenate([values, scores[found]])
            least = _nth_largest(values, n)
            rows, values = rows[values >= least], values[values >= least]
            read = stop
            # Twice as far at most: what is read meanwhile raises the score to reach.
            reachable = np.searchsorted(self.bounds, self.bounds.dtype.type(-least), side="right")
            stop = min(2 * read, int(reachable))
        items = self.order[rows]
        ranked = np.lexsort((items, -values))[:n]
        return items[ranked], values[ranked].astype(np.float64)


def _nth_largest(scores: Array, n: int) -> float:
    """Return the n-th largest score, minus infinity when there are fewer."""
    if len(scores) < n:
        return -np.inf
    return float(np.partition(scores, -n)[-n])
