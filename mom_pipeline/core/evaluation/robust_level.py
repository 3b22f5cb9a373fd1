"""How unusual a value is beside those of the days before, in robust units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.types import Array, Float64

# Days after which a day counts half as much for the level.
_HALF_LIFE = 7.0
# The median distance from the median, to the standard deviation of a normal distribution.
_TO_DEVIATION = 1.4826
# The spread of n days is itself uncertain: it is taken to be 1 + _FEW / n times as large.
_FEW = 4.0
# A trend is taken into account where so many days rise or fall together (Kendall's tau).
_TREND_DAYS, _TREND_TAU = 14, 0.6


@dataclass(frozen=True)
class RobustLevel:
    """What is usual on a day, and by how much days differ from what is usual on them."""

    level: float
    spread: float

    @classmethod
    def from_days(cls, before: Sequence[float], weekdays: Sequence[int]) -> Self:
        """Return what the days before say.

        level: their median, the latest with most weight, corrected for trend and weekday.
        spread: 1.4826 times the median distance of the days before from their own levels.

        before: oldest first.  weekdays: 0 to 6, of the days before and then of the day itself.
        """
        values = _without_trend(np.array(before, dtype=np.float64))
        weekdays_before, weekday = np.array(weekdays[-1 - len(values) : -1]), weekdays[-1]
        days = np.arange(len(values))
        levels = _weighted_medians(values, np.abs(days - days[:, None]))
        effects = _weekday_effects(values - levels, weekdays_before)
        corrected = values - effects[weekdays_before]
        level = float(_weighted_medians(corrected, days[None, ::-1])[0] + effects[weekday])
        spread = _TO_DEVIATION * float(np.median(np.abs(corrected - levels)))
        return cls(level, spread * (1 + _FEW / len(values)))

    def distance(self, value: float, *, least_spread: float, unknown: float = 0.0) -> float:
        """Return how many spreads a value lies above the level; negative: below.

            (value - level) / sqrt(max(spread, least_spread)^2 + unknown^2)

        unknown: what the level may differ by for reasons that the days before do not show.
        """
        return (value - self.level) / math.hypot(max(self.spread, least_spread), unknown)


def _without_trend(values: Float64) -> Float64:
    """What the values would be today, by the median slope between two days (Theil and Sen)."""
    last = values[-_TREND_DAYS:]
    later, earlier = np.tril_indices(len(last), -1)
    rises = last[later] - last[earlier]
    if len(last) < _TREND_DAYS or abs(np.sign(rises).mean()) < _TREND_TAU:
        return values
    slope = float(np.median(rises / (later - earlier)))
    return np.asarray(last + slope * np.arange(len(last), 0, -1))


def _weighted_medians(values: Float64, ages: Array) -> Float64:
    """Return medians, each value weighted by 2^(-age / half-life). ages: (medians, values)."""
    order = np.argsort(values, kind="stable")
    weights = np.cumsum(0.5 ** (ages[:, order] / _HALF_LIFE), axis=1)
    return np.asarray(values[order][(weights < weights[:, -1:] / 2).sum(axis=1)])


def _weekday_effects(residuals: Float64, weekdays: Array) -> Float64:
    """(7,) median difference of each weekday, drawn to 0 as by one more day; 0 of a single day."""
    effects = np.zeros(7)
    for weekday in np.unique(weekdays):
        same = residuals[weekdays == weekday]
        if len(same) > 1:
            effects[weekday] = np.median(same) * len(same) / (len(same) + 1)
    return effects
