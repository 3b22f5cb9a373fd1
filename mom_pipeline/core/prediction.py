"""P[item | user] and the exact best N of it (paper, equation 9), in blocks of users."""

from collections.abc import Callable

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Scores held at one time by all threads together, in numbers.
_SCORES_IN_MEMORY = 64_000_000

# Scores of a block of users for every item: (users, D). The block may be written to.
Scorer = Callable[[Csr], Array]


def class_scores(memberships: Array, item_probs: Array) -> Array:
    """P[y | u] = sum_k P[y | k] P[k | u]: (users, D)."""
    return memberships @ item_probs.T


def recommend_top(
    X: Csr, scorer: Scorer, n: int, *, exclude_seen: bool = True
) -> tuple[Array, Float64]:
    """Return the n best items of every user and their scores, (N, n) each.

    Ties go to the lower item position. A user with fewer than n candidates gets a short list,
    filled with -1 and a score of 0.
    """
    if n < 1:
        raise InvalidSetting(f"n must be at least 1, found {n}")
    N, D = X.shape
    ids = np.full((N, n), -1, dtype=np.int64)
    scores = np.zeros((N, n))
    users_per_block = max(1, min(1024, _SCORES_IN_MEMORY // (D * available_cores())))

    def block(start: int) -> None:
        users = slice(start, min(start + users_per_block, N))
        rows = X[users]
        block_scores = scorer(rows)
        if exclude_seen:
            hide_seen(block_scores, rows)
        best, best_scores = top_n(block_scores, n)
        ids[users, : best.shape[1]] = best
        scores[users, : best.shape[1]] = best_scores

    map_blocks(block, range(0, N, users_per_block))
    return ids, scores


def hide_seen(scores: Array, X: Csr) -> None:
    """Set the scores of the items in each user's own history to minus infinity, in place."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    scores[users, X.indices] = -np.inf


def top_n(scores: Array, n: int) -> tuple[Array, Float64]:
    """Return positions and values of the n largest of every row, largest first.

    Equal scores come in the order of their positions; -inf is no candidate: position -1, score 0.
    scores: (rows, D). Returns two (rows, min(n, D)) arrays.
    """
    rows, D = scores.shape
    n = min(n, D)
    if n < D:
        threshold = -np.partition(-scores, n - 1, axis=1)[:, n - 1 : n]
        positions = _first_n_at_least(scores, threshold, n)
    else:
        positions = np.broadcast_to(np.arange(D), (rows, D)).copy()
    values = np.take_along_axis(scores, positions, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    positions = np.take_along_axis(positions, order, axis=1)
    values = np.take_along_axis(values, order, axis=1).astype(np.float64)
    missing = np.isneginf(values)
    positions[missing] = -1
    values[missing] = 0.0
    return positions, values


def _first_n_at_least(scores: Array, threshold: Array, n: int) -> Array:
    """Return, per row, the positions of all scores above the threshold and the first equal ones.

    Positions ascend within a row, so that a stable sort by score breaks ties by position.
    """
    above = scores > threshold
    missing = n - above.sum(axis=1)
    equal_rows, equal_columns = np.nonzero(scores == threshold)
    rank_in_row = np.arange(len(equal_rows)) - np.searchsorted(equal_rows, equal_rows)
    taken = rank_in_row < missing[equal_rows]
    above[equal_rows[taken], equal_columns[taken]] = True
    return np.nonzero(above)[1].reshape(len(scores), n)
