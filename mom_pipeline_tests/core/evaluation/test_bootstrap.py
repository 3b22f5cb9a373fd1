import numpy as np
import pytest

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.evaluation import bootstrap
from mom_pipeline.core.evaluation.bootstrap import paired_interval


def generator(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_agrees_with_the_normal_law_on_many_users(rng):
    reference = rng.random((3000, 2))
    values = reference + rng.normal([0.02, -0.1], [0.3, 1.0], (3000, 2))
    difference, low, high = paired_interval(values, reference, generator(), samples=4000)
    d = values - reference
    half = 1.959964 * d.std(axis=0) / np.sqrt(3000)
    np.testing.assert_allclose(difference, d.mean(axis=0), rtol=1e-12)
    # The quantile of 4,000 samples is itself known to about 2 % of the half width.
    np.testing.assert_allclose(difference - low, half, rtol=0.06)
    np.testing.assert_allclose(high - difference, half, rtol=0.06)


def test_pairing_takes_out_what_users_have_in_common(rng):
    hard = rng.normal(0, 10, (500, 1))
    values, reference = hard + 0.5 + rng.normal(0, 0.1, (500, 1)), hard
    _, low, high = paired_interval(values, reference, generator())
    assert 0.45 < low[0] < 0.5 < high[0] < 0.55


def test_covers_the_truth_as_often_as_it_says():
    """Each column is a data set of its own: 600 of them, skewed as hits are, mean 0.2."""
    draws = np.random.default_rng(1)
    values = (draws.random((150, 600)) < 0.2).astype(float)
    _, low, high = paired_interval(values, np.zeros_like(values), generator(), samples=800)
    covered = ((low <= 0.2) & (high >= 0.2)).mean()
    assert 0.92 < covered < 0.97
    _, low, high = paired_interval(
        values, np.zeros_like(values), generator(), samples=800, level=0.5
    )
    assert 0.42 < ((low <= 0.2) & (high >= 0.2)).mean() < 0.58


def test_equal_generators_give_equal_intervals_in_any_blocks_and_shape(rng, monkeypatch):
    values, reference = rng.random((40, 2, 3)), rng.random((40, 2, 3))
    once = paired_interval(values, reference, generator(), samples=90)
    again = paired_interval(values, reference, generator(), samples=90)
    np.testing.assert_array_equal(once, again)
    assert once[0].shape == (2, 3)
    alone = paired_interval(values[:, 1, 2], reference[:, 1, 2], generator(), samples=90)
    np.testing.assert_allclose([end[1, 2] for end in once], alone, rtol=1e-12)
    monkeypatch.setattr(bootstrap, "_COUNTS_PER_BLOCK", 400)
    many_blocks = paired_interval(values, reference, generator(), samples=3000)
    np.testing.assert_allclose(many_blocks, once, atol=0.05)
    np.testing.assert_array_equal(
        many_blocks, paired_interval(values, reference, generator(), samples=3000)
    )


def test_bad_input_is_refused():
    one = np.ones((4, 2))
    with pytest.raises(InvalidInteractions, match="same users"):
        paired_interval(one, one[:3], generator())
    with pytest.raises(InvalidInteractions, match="at least one"):
        paired_interval(one[:0], one[:0], generator())
    with pytest.raises(InvalidInteractions, match="NaN"):
        paired_interval(one, one * np.nan, generator())
    with pytest.raises(InvalidSetting, match="level"):
        paired_interval(one, one, generator(), level=1.0)
    with pytest.raises(InvalidSetting, match="samples"):
        paired_interval(one, one, generator(), samples=0)
