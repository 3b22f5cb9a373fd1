"""Why an item is in a list: the class, or the item of the history, that spoke for it most."""

import numpy as np

from mom_pipeline.core.pair_scores import PairScores
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

_USERS_PER_BLOCK = 512
# Pairs of a history item and a listed one that are looked up at one time.
_PAIRS_PER_BLOCK = 2_000_000


def component_reasons(P: Array, item_probs: Array, items: Array) -> Array:
    """Return the class k with the largest P[k | u] O[y, k] of every listed item, (N, n).

    P: (N, K).  item_probs: (D, K).  items: (N, n), -1 where there is none; so is the reason
    there, and where no class gives the item any probability.
    """
    reasons = np.full(items.shape, -1, dtype=np.int64)

    def block(start: int) -> None:
        users = slice(start, start + _USERS_PER_BLOCK)
        shares = P[users, None, :] * item_probs[items[users]]
        found = (items[users] >= 0) & (shares.max(axis=2) > 0)
        reasons[users] = np.where(found, shares.argmax(axis=2), -1)

    map_blocks(block, range(0, len(items), _USERS_PER_BLOCK))
    return reasons


def history_reasons(X: Csr, items: Array, pairs: PairScores, history_exponent: float) -> Array:
    """Return the item h of the history with the largest share in the pair score, (N, n).

        share of h = (c_h^-history G_hy c_y^-candidate)^sharpness

    The candidate's own factor is the same for every h and left out. X: (N, D).  items: (N, n).
    -1 where there is no item, or none of the history goes with it.
    """
    reasons = np.full(items.shape, -1, dtype=np.int64)
    scale = np.maximum(pairs.item_users, 1.0) ** -(history_exponent * pairs.sharpness)
    sizes = np.diff(X.indptr)
    ends = np.cumsum(sizes * items.shape[1]) // _PAIRS_PER_BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(sizes)]

    def block(number: int) -> None:
        first, last = cuts[number], cuts[number + 1]
        users, places = np.nonzero((items[first:last] >= 0) & (sizes[first:last, None] > 0))
        if not len(users):
            return
        users += first
        lengths = sizes[users]
        begins = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(begins, lengths)
        history = X.indices[np.repeat(X.indptr[users], lengths) + within]
        listed = np.repeat(items[users, places], lengths)
        shares = np.asarray(pairs.powers[history, listed]) * scale[history]
        best = np.maximum.reduceat(shares, begins)
        is_best = shares == np.repeat(best, lengths)
        # The first of equals: the smallest place within the history.
        first_best = np.minimum.reduceat(np.where(is_best, within, len(within)), begins)
        reasons[users, places] = np.where(best > 0, history[begins + first_best], -1)

    map_blocks(block, range(len(cuts) - 1))
    return reasons
