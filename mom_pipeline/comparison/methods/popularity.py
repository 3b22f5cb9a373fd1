"""The same list for every user: items by the number of users who took them."""

import numpy as np

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    filled,
    weighted,
)
from mom_pipeline.core.types import Array, Csr

DEFAULTS: dict[str, Setting] = {"values": "binary"}


def fit_popularity(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Score every item by its users ("binary") or by its events ("counts").

    X: (N, D). There is nothing random; the seed is not used.
    """
    chosen = filled(settings, DEFAULTS)
    popularity = np.asarray(weighted(X, chosen["values"]).sum(axis=0)).ravel()

    def scores(rows: Csr) -> Array:
        return np.tile(popularity, (rows.shape[0], 1))

    return Fitted(scores)


POPULARITY = Method(
    "popularity", "Popularity", fit_popularity, ({"values": "binary"}, {"values": "counts"})
)
