"""The low-pass part for one user, without reading all of the eigenvectors.

    score_y = v . V_y / S_y  <=  |v| |V_y / S_y|,     v = x S V diag(f)

The last factor does not depend on the user. On real logs a few items have most of it, so that
the bound rules out all but some hundred of the others.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.types import Array

_FIRST_ITEMS = 1024
# The bound holds for exact sums; a sum in single precision may exceed it by rounding.
_ROUNDING = 1 + 1e-4


@dataclass(frozen=True)
class BoundedLowPass:
    """A low-pass part and the norms of its rows.

    norms: |V_y / S_y|, (D,).  order: (D,), items, the largest norm first.
    """

    low_pass: LowPass
    norms: Array
    order: Array

    @classmethod
    def of(cls, low_pass: LowPass) -> Self:
        """Compute the norms once."""
        norms = np.linalg.norm(low_pass.basis, axis=1) / low_pass.item_scale
        norms = (norms * _ROUNDING).astype(low_pass.basis.dtype)
        return cls(low_pass, norms, np.argsort(-norms, kind="stable"))

    def seen_through(self, history: Array, ridge: float) -> Array:
        """Return v of a history of item positions, (rank,)."""
        return np.asarray(self.low_pass.filtered_at(history, ridge).sum(axis=0))

    def at(self, v: Array, items: Array) -> Array:
        """Return the scores of some items."""
        return np.asarray(self.low_pass.spread_at(items) @ v)

    def bounds(self, v: Array) -> Array:
        """Return what each item can score at most, (D,)."""
        return np.asarray(self.norms * np.linalg.norm(v))

    def largest(self, v: Array, hidden: Array) -> float:
        """Return the largest score of an item that is not hidden; 0 when none is positive."""
        bounds = self.bounds(v)
        best, read, stop = 0.0, 0, min(_FIRST_ITEMS, int(np.count_nonzero(bounds)))
        while read < stop:
            items = self.order[read:stop]
            scores = self.at(v, items)
            scores[np.isin(items, hidden)] = -np.inf
            best = max(best, float(scores.max()))
            read = stop
            stop = min(2 * read, int(np.count_nonzero(bounds > best)))
        return best
