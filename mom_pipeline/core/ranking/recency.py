"""What the days of the pairs tell: how far a history has aged, and the trend of the items.

A history ages by its own latest event, so that it stays as it is while its user does nothing:

    x_uy = 2^(-(latest_u - day_uy) / half-life)

The trend says which items are taken more than before:

    trend_y ~ (r_y + s m) / (c_y + s),    r_y = sum_u 2^(-age_uy / half-life),    m = sum r / sum c

c_y users took item y, and age_uy is how long ago user u took it last; items of few users are drawn
to the mean m. A score is multiplied by the trend to some power: with popularity alone and a power
of 1, that is recent popularity. Only the ratios between items matter, so no day has to be today.
"""

from copy import copy

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.score import NO_AGEING
from mom_pipeline.core.types import Array, Csr, Float64

# No item of a history counts for less: it is still not to be recommended again.
_LEAST = 1e-6
# Users that every item is taken to have besides its own, with the mean age of all.
_SMOOTHING = 3.0


def as_last_days(last_days: object, X: Csr) -> Csr:
    """Return the day of every pair's last event, with the positions of X, or say what is wrong.

    last_days: (N, D) numbers of days, above 0, such as `date.toordinal()`, where X has entries.
    """
    days = as_interactions(last_days, n_items=X.shape[1])
    same = (
        days.shape == X.shape
        and np.array_equal(days.indptr, X.indptr)
        and np.array_equal(days.indices, X.indices)
    )
    if not same:
        raise InvalidInteractions(
            f"last_days must have a day above 0 for exactly the {X.nnz} pairs of the interactions, "
            f"found {days.nnz} in a matrix of {days.shape}"
        )
    return days


def aged(X: Csr, last_days: Csr | None, half_life: float) -> Csr:
    """Return histories in which an item counts for less the longer ago it was taken, (N, D).

    X itself where the days are not known or the half-life is NO_AGEING.
    last_days: (N, D), with the entries of X.  half_life: in days.
    """
    if last_days is None or half_life >= NO_AGEING or not X.nnz:
        return X
    lengths = np.diff(last_days.indptr)
    taken = np.flatnonzero(lengths)
    latest = np.maximum.reduceat(last_days.data, last_days.indptr[taken])
    ages = np.repeat(latest, lengths[taken]) - last_days.data
    older = copy(X)
    older.data = np.maximum(2 ** (-ages / half_life), _LEAST)
    return older


def trend(last_days: Csr, half_life: float) -> Float64:
    """Return the trend of every item, (D,): the largest is 1, and that of an item without users 0.

    last_days: (N, D).  half_life: in days.
    """
    n_items = int(last_days.shape[1])
    if not last_days.nnz:
        return np.zeros(n_items)
    ages = last_days.data.max() - last_days.data
    recent = np.bincount(last_days.indices, weights=2 ** (-ages / half_life), minlength=n_items)
    users = np.bincount(last_days.indices, minlength=n_items)
    ratio = (recent + _SMOOTHING * recent.sum() / users.sum()) / (users + _SMOOTHING)
    ratio[users == 0] = 0.0
    return np.asarray(ratio / ratio.max())


def trend_factors(last_days: Csr | None, half_life: float, exponent: float) -> Array | None:
    """Return what scores are multiplied by, (D,); None where that is 1 for all items."""
    if last_days is None or exponent == 0:
        return None
    return np.asarray(trend(last_days, half_life) ** exponent, dtype=np.float32)
