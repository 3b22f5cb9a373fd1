"""What two halves of the users agree on is what there is to be found; what moved between days."""

from dataclasses import replace

import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.evaluation.stability import drift, popularity_drift, split_half
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, Yesterday, advance, width_for_days
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import in_first_half

TRUE_COMPONENTS, FITTED = 4, 6


def settings(estimator="balanced"):
    width = width_for_days(FITTED)
    return MomentSettings(Estimator.from_name(estimator), FITTED, width, halves=True)


def fitted(X, estimator="balanced"):
    """Anchor and sums of everyone, and the components of the full model."""
    step = advance(X, None, "", settings(estimator))
    found = decompose(step.anchor, step.sums, DecomposeSettings(FITTED))
    return step.anchor, step.sums, found.in_span


@pytest.fixture(scope="module")
def binary():
    _, counts = simulate(5_000, 200, TRUE_COMPONENTS, items_per_user=12, seed=2)
    return (counts > 0).astype(np.float64)


def test_the_halves_are_even_fixed_and_part_neighbours():
    sides = in_first_half(np.arange(10_001))
    assert abs(sides.sum() - 5_000) <= 5
    np.testing.assert_array_equal(sides[300:400], in_first_half(np.arange(300, 400)))
    runs = np.diff(np.flatnonzero(np.diff(sides.astype(int))))
    assert runs.max() <= 3


def test_components_that_exist_are_found_twice_and_noise_is_not(binary):
    _, sums, components = fitted(binary)
    agreement = split_half(sums, components, 0).agreement
    assert agreement.shape == (FITTED,)
    assert (agreement[:TRUE_COMPONENTS] > 0.95).all()
    assert (agreement[TRUE_COMPONENTS:] < 0.5).all()
    assert agreement.min() >= 0
    assert agreement.max() <= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_component_that_noise_outranks_in_a_half_is_found_there(seed):
    _, counts = simulate(1_500, 300, TRUE_COMPONENTS, items_per_user=6, seed=seed)
    step = advance(
        (counts > 0).astype(np.float64), None, "", replace(settings(), n_components=TRUE_COMPONENTS)
    )
    found = decompose(step.anchor, step.sums, DecomposeSettings(TRUE_COMPONENTS)).in_span
    assert split_half(step.sums, found, 0).agreement.min() > 0.5


def test_a_later_day_starts_from_its_halves_and_ends_where_a_cold_start_does(binary):
    before = binary[:4_800]
    first = advance(before, None, "", settings())
    start = split_half(first.sums, fitted(before)[2], 0).components
    step = advance(binary, Yesterday(before, first.anchor, first.sums), "", settings())
    assert not step.reason
    components = decompose(step.anchor, step.sums, DecomposeSettings(FITTED)).in_span
    warm = split_half(step.sums, components, 0, starts=start)
    cold = split_half(step.sums, components, 0)
    real = slice(TRUE_COMPONENTS)
    np.testing.assert_allclose(warm.agreement[real], cold.agreement[real], atol=1e-4)
    np.testing.assert_allclose(warm.components[:, :, real], cold.components[:, :, real], atol=1e-3)
    assert (warm.agreement[TRUE_COMPONENTS:] < 0.5).all()


def test_a_half_that_supports_nothing_agrees_with_nothing(binary):
    anchor, sums, components = fitted(binary)
    for n_users, most in ((0, 0), (1, 1)):  # one user supports one component at most
        few = replace(AnchoredSums.from_rows(binary[:n_users], anchor), item_pairs=None)
        agreement = split_half(replace(sums, half=few), components, 0).agreement
        assert (agreement > 0).sum() <= most


def test_drift_is_the_share_that_went_elsewhere():
    O = np.array([[0.5, 0.2], [0.5, 0.8]])
    np.testing.assert_allclose(drift(O, O[:, :1]), [0.0, 1.0])  # the second has no counterpart
    np.testing.assert_allclose(drift(O, O[:, ::-1]), [0.3, 0.3])
    assert popularity_drift(np.array([3.0, 1.0]), np.array([1.0, 1.0])) == pytest.approx(0.25)
