"""What is usual: robust against outliers, aware of weekdays and of trends."""

import numpy as np
import pytest

from mom_pipeline.core.evaluation.robust_level import RobustLevel

WEEKDAYS = [day % 7 for day in range(57)]


def test_a_few_absurd_days_hardly_move_what_is_usual_nor_its_spread(rng):
    values = rng.normal(5, 0.1, 28)
    clean = RobustLevel.from_days(values, WEEKDAYS[:29])
    values[[3, 12, 20]] += 8
    spoilt = RobustLevel.from_days(values, WEEKDAYS[:29])
    assert spoilt.level == pytest.approx(clean.level, abs=0.1) == pytest.approx(5, abs=0.2)
    assert spoilt.spread < 2 * clean.spread


def test_the_spread_is_a_standard_deviation_and_noise_is_no_trend(rng):
    """The level of a weekday is that of its four days; a line through all would be far off."""
    found = [RobustLevel.from_days(rng.normal(0, 0.5, 56), WEEKDAYS) for _ in range(60)]
    assert np.mean([usual.spread for usual in found]) == pytest.approx(0.5, rel=0.2)
    assert np.std([usual.level for usual in found]) < 0.35


def test_every_weekday_has_its_own_level_and_growth_is_carried_on(rng):
    values = [5.0 + (day % 7 == 6) + rng.normal(0, 0.02) for day in range(55)]
    assert RobustLevel.from_days(values, WEEKDAYS[:56]).level == pytest.approx(6, abs=0.2)
    assert RobustLevel.from_days([*values, 6.0], WEEKDAYS).level == pytest.approx(5, abs=0.1)
    rising = 0.1 * np.arange(28) + rng.normal(0, 0.03, 28)
    assert RobustLevel.from_days(rising, WEEKDAYS[:29]).level == pytest.approx(2.8, abs=0.15)


def test_the_distance_counts_spreads_and_what_is_unknown():
    usual = RobustLevel(level=2.0, spread=0.3)
    assert usual.distance(1.0, least_spread=0.1) == pytest.approx(-1 / 0.3)
    assert usual.distance(1.0, least_spread=0.5) == pytest.approx(-2)
    assert usual.distance(2.5, least_spread=0.1, unknown=0.4) == pytest.approx(1)
