"""What a list may hold, and in which order, beside the score: hidden items, boosts, groups, MMR.

Maximal marginal relevance (Carbonell and Goldstein, 1998) takes next the item with the largest

    (1 - d) r_y - d max_s sim(y, s)

r: how likely the item is beside the user's best one, 0 to 1.  s: the items taken before.
sim: how often both were taken, a cosine.  d: the diversity, 0 for the order of the score.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class ListRules:
    """The rules of every list."""

    hidden: Array | None = None  # (D,) of bool, items that no list may hold
    boosts: Float64 | None = None  # (D,) by what an item is likelier
    groups: Csr | None = None  # (D, G) 1 where an item is of a group
    max_per_group: int = 0  # items of it in a list, 0 for any
    diversity: float = 0.0

    @property
    def reorder(self) -> bool:
        """Whether a list is more than the items of the best scores."""
        return self.diversity > 0 or (self.max_per_group > 0 and self.groups is not None)

    def pick(
        self, items: Array, likely: Array, n: int, similar: Callable[[int], Array], *, whole: bool
    ) -> Array | None:
        """Return which of some items make the list, (n,) at most; None where others could come in.

        items, likely: best first, with r.  similar: gives sim of an item and all.
        whole: there are no others.
        """
        d, groups = self.diversity, self.groups if self.max_per_group else None
        resemblance, is_open = np.zeros(len(items)), np.ones(len(items), dtype=bool)
        own = None if groups is None else groups[items]
        in_list, taken = np.zeros(0 if own is None else own.shape[1]), list[int]()
        while len(taken) < n:
            value = np.where(is_open, (1 - d) * likely - d * resemblance, -np.inf)
            best = int(value.argmax()) if len(items) else 0
            if not is_open.any() or (not whole and value[best] < (1 - d) * likely[-1]):
                return np.array(taken, dtype=np.int64) if whole else None
            taken.append(best)
            is_open[best] = False
            if own is not None:
                in_list += own[[best]].toarray()[0]
                is_open &= own @ (in_list >= self.max_per_group).astype(np.int64) == 0
            if d:
                resemblance = np.maximum(resemblance, similar(int(items[best]))[items])
        return np.array(taken, dtype=np.int64)


NO_RULES = ListRules()
