"""The same list for every user: items by the number of users who took them, ever or of late."""

import numpy as np

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    filled,
    in_range,
    weighted,
)
from mom_pipeline.core.interactions import as_binary
from mom_pipeline.core.types import Array, Csr

DEFAULTS: dict[str, Setting] = {"values": "binary"}
RECENT_DEFAULTS: dict[str, Setting] = {"half_life": 7.0}


def fit_popularity(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Score every item by its users ("binary") or by its events ("counts").

    X: (N, D). There is nothing random; the seed is not used.
    """
    chosen = filled(settings, DEFAULTS)
    popularity = np.asarray(weighted(X, chosen["values"]).sum(axis=0)).ravel()

    def scores(rows: Csr) -> Array:
        return np.tile(popularity, (rows.shape[0], 1))

    return Fitted(scores)


def fit_recent_popularity(
    X: Csr, settings: Settings, seed: int, last_days: Csr | None = None
) -> Fitted:
    """Score every item by its users of late: each counts half after `half_life` days.

    Where no day is known, all of them are of the same day.
    """
    chosen = filled(settings, RECENT_DEFAULTS)
    half_life = in_range("half_life", chosen["half_life"], 0, above=True)
    days = as_binary(X) if last_days is None else last_days
    weights = 2 ** ((days.data - days.data.max(initial=0)) / half_life)
    popularity = np.bincount(days.indices, weights=weights, minlength=days.shape[1])

    def scores(rows: Csr) -> Array:
        return np.tile(popularity, (rows.shape[0], 1))

    return Fitted(scores)


def fit_own_history(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Score every item by how often the user took it before, then by its users.

    For lists that may hold items of the history; elsewhere it is popularity.
    """
    filled(settings, {})
    users = np.bincount(X.indices, minlength=X.shape[1])
    tie_break = users / (users.max(initial=1) + 1)

    def scores(rows: Csr) -> Array:
        return np.asarray(rows.toarray() + tie_break)

    return Fitted(scores)


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
