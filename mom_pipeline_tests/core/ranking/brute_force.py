"""Lists from the scores of all items at once."""

import numpy as np

from mom_pipeline.core.ranking.topn import hide_seen, top_n


def brute_force(X, scorer, n, *, exclude_seen=True):
    """Return the n best items of every user and their scores, (N, n) each, as `top_n` does."""
    scores = np.array(scorer(X), dtype=float)
    if exclude_seen:
        hide_seen(scores, X)
    items, values = top_n(scores, n)
    short = [(0, 0), (0, n - items.shape[1])]
    return np.pad(items, short, constant_values=-1), np.pad(values, short)
