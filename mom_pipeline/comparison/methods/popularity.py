"""Lists without a model: items by their users, ever or of late, or by the own history."""

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method, weighted
from mom_pipeline.core.interactions import as_binary
from mom_pipeline.core.types import Array, Csr


def _same_for_all(popularity: Array) -> Fitted:
    return Fitted(lambda rows: np.tile(popularity, (rows.shape[0], 1)))


def fit_popularity(X: Csr, seed: int, *, values: str = "binary") -> Fitted:
    """Score every item by its users ("binary") or by its events ("counts"). X: (N, D)."""
    return _same_for_all(np.asarray(weighted(X, values).sum(axis=0)).ravel())


def fit_recent_popularity(
    X: Csr, seed: int, *, half_life: float = 7.0, last_days: Csr | None = None
) -> Fitted:
    """Score every item by its users of late: each counts half after `half_life` days.

    Where no day is known, all of them are of the same day.
    """
    days = as_binary(X) if last_days is None else last_days
    weights = 2 ** ((days.data - days.data.max(initial=0)) / half_life)
    return _same_for_all(np.bincount(days.indices, weights=weights, minlength=days.shape[1]))


def fit_own_history(X: Csr, seed: int) -> Fitted:
    """Score every item by how often the user took it before, then by its users.

    For lists that may hold items of the history; elsewhere it is popularity.
    """
    users = np.bincount(X.indices, minlength=X.shape[1])
    tie_break = users / (users.max(initial=1) + 1)
    return Fitted(lambda rows: np.asarray(rows.toarray() + tie_break))


POPULARITY = Method(
    "popularity", "Popularity", fit_popularity, ({"values": "binary"}, {"values": "counts"})
)
OWN_HISTORY = Method("own-history", "Own history", fit_own_history)
RECENT_POPULARITY = Method(
    "recent-popularity",
    "Recent popularity",
    fit_recent_popularity,
    tuple({"half_life": days} for days in (7.0, 1.0, 3.0, 14.0, 30.0, 60.0, 120.0)),
    reads_days=True,
)
