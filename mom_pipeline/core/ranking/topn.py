"""The best n of any scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Array, Csr, Float64

# Scores held at one time by all threads together, in numbers.
_SCORES_IN_MEMORY = 64_000_000
_GROUPS_PER_RESULT = 8

# Told the share of the users whose lists are made.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class BestItems:
    """The best items of N users."""

    items: Array  # (N, n) int64, a short list ends with -1
    scores: Float64  # (N, n), 0 where there is no item
    values: dict[str, Array]  # part -> (N,) a user's best value, by which it is divided

    @classmethod
    def empty(cls, n_users: int, n: int) -> "BestItems":
        """Return lists without items."""
        require_length(n)
        return cls(np.full((n_users, n), -1, dtype=np.int64), np.zeros((n_users, n)), {})


def most_popular(popularity: Array, n: int) -> tuple[Array, Float64]:
    """Return the n most popular items, fewer where fewer have users, and their shares."""
    require_length(n)
    items, shares = top_n(np.where(popularity > 0, popularity, -np.inf)[None], n)
    return items[0][items[0] >= 0], shares[0][items[0] >= 0]


def lists_by_popularity(popularity: Array, X: Csr, n: int, *, exclude_seen: bool = True) -> Array:
    """Return the n most popular items of every user, (N, n).

    popularity: (D,), -inf is no candidate. One order serves all: of a user who has seen those at
    r_0 < r_1 < ... of it, the j-th of the list stands at  j + #{i : r_i - i <= j}.
    """
    require_length(n)
    N, D = X.shape
    order = np.argsort(-popularity, kind="stable")
    order = order[popularity[order] > -np.inf]
    skipped = np.zeros((N, n), dtype=np.int64)
    if exclude_seen:
        ranks = np.full(D, D)
        ranks[order] = np.arange(len(order))
        seen = np.sort(np.repeat(np.arange(N), np.diff(X.indptr)) * (D + 1) + ranks[X.indices])
        owners, ranks_seen = np.divmod(seen, D + 1)
        before = ranks_seen - (np.arange(len(seen)) - X.indptr[owners])
        near = before < n
        skipped.reshape(-1)[:] = np.bincount(owners[near] * n + before[near], minlength=N * n)
    at = np.arange(n) + skipped.cumsum(axis=1)
    return np.append(order, -1)[np.minimum(at, len(order))]


def require_length(n: int) -> None:
    """Raise InvalidSetting for lists of no items."""
    if n < 1:
        raise InvalidSetting(f"n must be at least 1, found {n}")


def user_blocks(n_users: int, n_items: int, most: int = 1024) -> list[slice]:
    """Cut users into blocks of at most `most`, whose scores fit into memory on all cores."""
    step = max(1, min(most, _SCORES_IN_MEMORY // (max(n_items, 1) * available_cores())))
    return [slice(start, min(start + step, n_users)) for start in range(0, n_users, step)]


def hide_seen(scores: Array, X: Csr) -> None:
    """Set the scores of the items in each user's own history to minus infinity, in place."""
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    scores[users, X.indices] = -np.inf


def top_n(scores: Array, n: int) -> tuple[Array, Float64]:
    """Positions and values of the n largest of every row, equal ones in order; -inf: -1 and 0."""
    rows, D = scores.shape
    n = min(n, D)
    least = np.maximum(nth_largest_bound(scores, n), np.finfo(scores.dtype).min)
    # One comparison and one flat list: this is where the time goes on short rows.
    owners, positions = np.divmod(np.flatnonzero(scores >= least), D)
    return best_entries(scores[owners, positions], owners, positions, rows, n)


def best_entries(
    scores: Array, owners: Array, positions: Array, rows: int, n: int
) -> tuple[Array, Float64]:
    """As `top_n`, of entries given by row (`owners`) and position."""
    per_row = np.bincount(owners, minlength=rows)
    ranks = np.arange(len(owners)) - np.repeat(np.cumsum(per_row) - per_row, per_row)
    width = max(n, int(per_row.max(initial=0)))
    candidates = np.full((rows, width), -1)
    values = np.full((rows, width), -np.inf)
    candidates[owners, ranks] = positions
    values[owners, ranks] = scores
    order = np.argsort(-values, axis=1, kind="stable")[:, :n]
    candidates = np.take_along_axis(candidates, order, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    return candidates, np.where(candidates < 0, 0.0, values)


def nth_largest_bound(scores: Array, n: int) -> Array:
    """Return a number per row that at least n of its entries reach, and few more: (rows, 1).

    The n-th largest of the maxima of many small groups: far quicker than selecting among all.
    """
    rows, D = scores.shape
    size = D // (_GROUPS_PER_RESULT * n)
    if size < 2:
        return np.partition(scores, D - n, axis=1)[:, D - n, None]
    groups = D // size
    maxima = scores[:, : size * groups].reshape(rows, size, groups).max(axis=1)
    return np.partition(maxima, -n, axis=1)[:, -n, None]
