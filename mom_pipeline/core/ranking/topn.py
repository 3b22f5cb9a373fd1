"""P[item | user] and the exact best N of it (paper, equation 9), in blocks of users."""

from collections.abc import Callable

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Scores held at one time by all threads together, in numbers.
_SCORES_IN_MEMORY = 64_000_000
_GROUPS_PER_RESULT = 8

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

    def block(users: slice) -> None:
        rows = X[users]
        block_scores = scorer(rows)
        if exclude_seen:
            hide_seen(block_scores, rows)
        best, best_scores = top_n(block_scores, n)
        ids[users, : best.shape[1]] = best
        scores[users, : best.shape[1]] = best_scores

    map_blocks(block, user_blocks(N, D))
    return ids, scores


def user_blocks(n_users: int, n_items: int) -> list[slice]:
    """Cut the users into blocks whose scores fit into memory, one block per core at a time."""
    step = max(1, min(1024, _SCORES_IN_MEMORY // (max(n_items, 1) * available_cores())))
    return [slice(start, min(start + step, n_users)) for start in range(0, n_users, step)]


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
    least = np.maximum(_nth_largest_bound(scores, n), np.finfo(scores.dtype).min)
    # One comparison and one flat list: this is where the time goes on short rows.
    owners, positions = np.divmod(np.flatnonzero(scores >= least), D)
    per_row = np.bincount(owners, minlength=rows)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(per_row) - per_row, per_row)
    width = max(n, int(per_row.max(initial=0)))
    candidates = np.full((rows, width), -1)
    values = np.full((rows, width), -np.inf)
    candidates[owners, places] = positions
    values[owners, places] = scores[owners, positions]
    order = np.argsort(-values, axis=1, kind="stable")[:, :n]
    candidates = np.take_along_axis(candidates, order, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    return candidates, np.where(candidates < 0, 0.0, values)


def _nth_largest_bound(scores: Array, n: int) -> Array:
    """Return a number per row that at least n of its entries reach, and few more: (rows, 1).

    Of the maxima of many small groups the n-th largest is such a number: each of the n groups
    holds an entry as large. Reading the groups once is far quicker than selecting among all;
    a group takes every so many-th entry, so that many maxima are found at a time.
    """
    rows, D = scores.shape
    size = D // (_GROUPS_PER_RESULT * n)
    if size < 2:
        return np.partition(scores, D - n, axis=1)[:, D - n, None]
    groups = D // size
    maxima = scores[:, : size * groups].reshape(rows, size, groups).max(axis=1)
    return np.partition(maxima, -n, axis=1)[:, -n, None]
