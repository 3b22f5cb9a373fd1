"""How unusual a value is beside those of the days before, in robust units."""

from collections.abc import Sequence

import numpy as np

from mom_pipeline.core.types import Float64

# The median distance from the median, to the standard deviation of a normal distribution.
_TO_DEVIATION = 1.4826
# The spread of n days is itself uncertain: it is taken to be 1 + _FEW / n times as large.
_FEW = 4.0


def distance(
    value: float,
    before: Sequence[float],
    *,
    least_spread: float,
    weekdays: Sequence[int] | None = None,
    weekday: int = 0,
) -> float:
    """Return how many spreads a value lies above the usual one; negative: below.

    (value - level) / max(spread, least_spread), spread = 1.4826 median |before - level|; and 0
    for a value between the least and the largest one before. With weekdays, 0 to 6, of the days
    before, every weekday has a level of its own.
    """
    values = np.asarray(before, dtype=np.float64)
    level, residuals = float(np.median(values)), values - np.median(values)
    if weekdays is not None:
        effects = _weekday_effects(residuals, np.asarray(weekdays))
        level, residuals = level + float(effects[weekday]), residuals - effects[weekdays]
    residual = value - level
    if residuals.min() <= residual <= residuals.max():
        return 0.0
    spread = _TO_DEVIATION * float(np.median(np.abs(residuals))) * (1 + _FEW / len(values))
    return residual / max(spread, least_spread)


def _weekday_effects(residuals: Float64, weekdays: Float64) -> Float64:
    """Return by how much each weekday differs, (7,).

    The median of its days, drawn towards 0 as if one more of them did not differ; 0 for a weekday
    that there was only once.
    """
    effects = np.zeros(7)
    for weekday in np.unique(weekdays):
        same = residuals[weekdays == weekday]
        if len(same) > 1:
            effects[weekday] = np.median(same) * len(same) / (len(same) + 1)
    return effects
