"""Recency: how far a history has aged, and the trend of the items.

    x_uy = 2^(-(latest_u - day_uy) / half-life)

A history ages by its own latest event, so that it stays as it is while its user does nothing.

    trend_y ~ (r_y + s m) / (c_y + s),    r_y = sum_u 2^(-age_uy / half-life),    m = sum r / sum c

c_y: users of item y; items of few users are drawn to the mean m. Only ratios between items
matter, so no day has to be today.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.moments.users import UserRows
from mom_pipeline.core.ranking.score import NO_AGEING
from mom_pipeline.core.types import Array, Csr, Float64

# No item of a history counts for less: it is still not to be recommended again.
_LEAST = 1e-6
# Users that every item is taken to have besides its own, with the mean age of all.
_SMOOTHING = 3.0
_PAIRS_PER_BLOCK = 4_000_000


def as_last_days(last_days: object, X: Csr) -> Csr:
    """Return the day of every entry's last event, (N, D), or say what is wrong with it.

    last_days: numbers of days, above 0, such as `date.toordinal()`, where X has entries.
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
    """Return histories, (N, D), in which an item counts for less the longer ago it was.

    X itself where the days are not known or the half-life is NO_AGEING.
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


@dataclass(frozen=True)
class Trend:
    """Sums over users. day: of the newest event.  recent: r, (D,), as of it.  users: c, (D,)."""

    day: float
    recent: Float64
    users: Float64
    half_life: float

    @classmethod
    def from_rows(cls, last_days: Csr, half_life: float) -> Self:
        n_items = int(last_days.shape[1])
        day = float(last_days.data.max(initial=0.0))
        recent, users = np.zeros(n_items), np.zeros(n_items)
        for start in range(0, last_days.nnz, _PAIRS_PER_BLOCK):  # rows may lie in a file
            pairs = slice(start, start + _PAIRS_PER_BLOCK)
            recency = 2 ** (-(day - last_days.data[pairs]) / half_life)
            recent += np.bincount(last_days.indices[pairs], weights=recency, minlength=n_items)
            users += np.bincount(last_days.indices[pairs], minlength=n_items)
        return cls(day, recent, users, half_life)

    def __add__(self, other: Self) -> Self:
        day = max(self.day, other.day)
        mine, theirs = self._as_of(day), other._as_of(day)
        return replace(mine, recent=mine.recent + theirs.recent, users=mine.users + theirs.users)

    def update(self, removed: Csr, added: Csr) -> Self:
        """Return the sums without some rows and with others, up to rounding. Both: (any, D)."""
        gone, come = (type(self).from_rows(days, self.half_life) for days in (removed, added))
        day = max(self.day, gone.day, come.day)
        mine = self.with_items(removed.shape[1])._as_of(day)
        come, gone = come._as_of(day), gone._as_of(day)
        users = mine.users + come.users - gone.users
        recent = np.where(users > 0, mine.recent + come.recent - gone.recent, 0.0)
        return replace(mine, recent=recent, users=users)

    def with_items(self, n_items: int) -> Self:
        return replace(self, recent=padded(self.recent, n_items), users=padded(self.users, n_items))

    def relative(self) -> Float64:
        """Return the trend of every item, (D,): the largest is 1, that of one without users 0."""
        if not self.users.any():
            return np.zeros(len(self.users))
        mean = self.recent.sum() / self.users.sum()
        ratio = (self.recent + _SMOOTHING * mean) / (self.users + _SMOOTHING)
        ratio[self.users == 0] = 0.0
        return np.asarray(ratio / ratio.max())

    def factors(self, exponent: float) -> Array:
        """Return what scores are multiplied by, (D,)."""
        return np.asarray(self.relative() ** exponent, dtype=np.float32)

    def as_arrays(self) -> dict[str, Array]:
        return {
            "trend_clock": np.array([self.day, self.half_life]),
            "trend_recent": self.recent,
            "trend_users": self.users,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        day, half_life = arrays["trend_clock"].tolist()
        return cls(day, arrays["trend_recent"], arrays["trend_users"], half_life)

    def _as_of(self, day: float) -> Self:
        if day == self.day:
            return self
        return replace(self, day=day, recent=self.recent * 2 ** ((self.day - day) / self.half_life))


@dataclass(frozen=True)
class TrendPass:
    """The sums of the trend over users whose days are known."""

    half_life: float

    def __call__(self, rows: UserRows) -> Trend:
        if rows.last_days is None:
            raise InvalidInteractions("the trend of the items needs the days of the pairs")
        return Trend.from_rows(rows.last_days, self.half_life)
