"""The exact best N of P[item | user] for one user, without reading the whole of O.

    P[y | u] = sum_k P[y | k] P[k | u]  <=  max_k P[y | k]

The right side does not depend on the user. With the items in its order, reading stops where
it falls below the N-th best score found so far. Of the items before that, only the classes that
matter to the user are read:

    P[y | u]  <=  sum_(k read) P[y | k] P[k | u]  +  |P[k not read | u]| |P[y | .]|

Items that this leaves in the race are scored in full; the list is that of the whole catalogue.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import get_blas_funcs

from mom_pipeline.core.types import Array, Float64

# Items read before the first look at the bound.
_FIRST_ITEMS = 2048
# The bound holds for exact sums; a sum in single precision may exceed it by rounding.
_ROUNDING = 1 + 1e-4
# Classes read between two looks at who is left in the race.
_CLASSES_PER_LOOK = 4
# An item scored in full costs as much as so many read for one class more.
_ITEMS_PER_FULL_SCORE = 64


def item_bounds(item_probs: Array) -> Array:
    """Return what each item can score at most, whoever the user: max_k P[y | k], (D,)."""
    return item_probs.max(axis=1) * item_probs.dtype.type(_ROUNDING)


@dataclass(frozen=True)
class BoundedTop:
    """The items in the order of what they can score at most.

    item_probs: O, (D, K).  order: (D,), the item of each place.  places: (D,), its inverse.
    bounds: (D,), by place, negated, so that they rise.
    by_class: (K, D), O by class and place.  norms: (D,), by place, |P[y | .]|.
    """

    item_probs: Array
    order: Array
    places: Array
    bounds: Array
    by_class: Array
    norms: Array

    @classmethod
    def of(cls, item_probs: Array) -> Self:
        """Sort O once. item_probs: (D, K)."""
        bounds = item_bounds(item_probs)
        order = np.argsort(-bounds, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        by_class = np.ascontiguousarray(item_probs[order].T)
        norms = np.linalg.norm(by_class, axis=0) * bounds.dtype.type(_ROUNDING)
        return cls(item_probs, order, places, -bounds[order], by_class, norms)

    def best(self, memberships: Array, n: int, hidden: Array) -> tuple[Array, Float64]:
        """Return the n best items and their scores, best first; ties go to the lower position.

        memberships: (K,), sums to 1.  hidden: positions that are no candidates. The list is
        short when fewer candidates exist.
        """
        D, P = len(self.order), memberships.astype(self.by_class.dtype, copy=False)
        is_hidden = np.zeros(D, dtype=bool)
        is_hidden[self.places[hidden]] = True
        found, values = np.empty(0, dtype=np.int64), np.empty(0, dtype=P.dtype)
        read, stop = 0, min(max(_FIRST_ITEMS, 4 * n), D)
        least = -np.inf
        while read < stop:
            reaching, scores = self._reaching(P, read, stop, least)
            shown = ~is_hidden[reaching]
            found = np.concatenate([found, reaching[shown]])
            values = np.concatenate([values, scores[shown]])
            least = _nth_largest(values, n) / _ROUNDING
            found, values = found[values >= least], values[values >= least]
            read = stop
            # Twice as far at most: what is read meanwhile raises the score to reach.
            reachable = np.searchsorted(self.bounds, self.bounds.dtype.type(-least), side="right")
            stop = min(2 * read, int(reachable))
        items = self.order[found]
        # Once more and all alike: equal items get equal scores, whichever way they were found.
        values = self.item_probs[items] @ P
        ranked = np.lexsort((items, -values))[:n]
        return items[ranked], values[ranked].astype(np.float64)

    def _reaching(self, P: Array, read: int, stop: int, least: float) -> tuple[Array, Array]:
        """Return the places from read to stop whose items reach a score, and what they score."""
        by_class = self.by_class[:, read:stop]
        if least <= 0:
            return np.arange(read, stop), P @ by_class
        (axpy,) = get_blas_funcs(("axpy",), (by_class,))
        norms, sums = self.norms[read:stop], np.zeros(stop - read, dtype=P.dtype)
        classes = np.argsort(-P)
        unread = np.sqrt(np.append(np.square(P[classes])[::-1].cumsum()[::-1], 0.0)).tolist()
        places = np.arange(len(sums))
        for start in range(0, len(P), _CLASSES_PER_LOOK):
            if len(places) * _ITEMS_PER_FULL_SCORE <= len(sums):
                break
            for k in classes[start : start + _CLASSES_PER_LOOK].tolist():
                sums = axpy(by_class[k], sums, a=P[k])
            left = P.dtype.type(unread[min(start + _CLASSES_PER_LOOK, len(P))])
            places = np.flatnonzero(sums + left * norms >= least / _ROUNDING)
        places += read
        return places, self.item_probs[self.order[places]] @ P


def _nth_largest(scores: Array, n: int) -> float:
    """Return the n-th largest score, minus infinity when there are fewer."""
    if len(scores) < n:
        return -np.inf
    return float(np.partition(scores, -n)[-n])
