import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.decomposition import Decomposition
from mom_pipeline.core.algorithm.recovery import recover
from mom_pipeline.core.simulation import draw_classes
from mom_pipeline_tests.core.conftest import population_sums


def from_population(truth, scale, method, projection, seed=0):
    """Run steps 2 to 8 on the exact moments of a known model, in a scaled item space."""
    anchor, sums = population_sums(truth.item_probs, truth.weights, scale)
    settings = DecomposeSettings(len(truth.weights), method, projection, seed=seed)
    return decompose(anchor, sums, settings).recovery


def some_factors(rng):
    """Factors and a decomposition whose columns are partly negative."""
    V = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return np.sqrt([[3.0], [2.0], [1.0]]) * V, Decomposition(np.array([1.5, 2, 3]), V, 0.0, 1)


@pytest.mark.parametrize(("n_items", "scaled"), [(40, False), (40, True), (700, True)])
@pytest.mark.parametrize("method", ["simultaneous", "deflation"])
@pytest.mark.parametrize("projection", ["clip", "simplex"])
def test_exact_moments_recover_the_truth(n_items, method, projection, scaled, rng):
    truth = draw_classes(n_items, 5, rng)
    scale = rng.uniform(0.2, 3.0, n_items) if scaled else np.ones(n_items)
    found = from_population(truth, scale, method, projection)
    distance = np.abs(found.item_probs[:, :, None] - truth.item_probs[:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(distance)
    assert distance[rows, columns].max() < 1e-6
    np.testing.assert_allclose(found.weights[rows], truth.weights[columns], atol=1e-6)
    assert found.weight_sum == pytest.approx(1.0, abs=1e-6)
    assert found.negative_mass < 1e-6


@pytest.mark.parametrize("projection", ["clip", "simplex"])
def test_negative_entries_are_removed_and_reported(projection, rng):
    recovery = recover(*some_factors(rng), np.ones(3), projection=projection)
    assert recovery.item_probs.min() >= 0
    np.testing.assert_allclose(recovery.item_probs.sum(axis=0), 1.0, rtol=1e-12)
    assert 0.01 < recovery.negative_mass < 0.6
    assert recovery.weight_sum == pytest.approx(1 / 2.25 + 1 / 4 + 1 / 9)


def test_a_vanishing_eigenvalue_takes_all_the_weight_only_without_the_cap():
    decomposition = Decomposition(np.array([0.0, 2.0]), np.eye(2), 0.0, 1)
    capped = recover(np.eye(2), decomposition, np.ones(2))
    np.testing.assert_allclose(capped.weights, [0.8, 0.2])
    plain = recover(np.eye(2), decomposition, np.ones(2), cap_weights=False)
    assert plain.weights[0] > 0.999


def test_simplex_projection_is_the_nearest_distribution(rng):
    from mom_pipeline.core.algorithm.recovery import _projected_to_simplex

    mu = rng.standard_normal((30, 1)) + 0.5
    nearest = _projected_to_simplex(mu)
    scaled = mu / mu.sum()
    best = np.linalg.norm(nearest - scaled)
    others = rng.dirichlet(np.full(30, 0.1), size=2000).T
    assert np.linalg.norm(others - scaled, axis=0).min() > best
    for step in (0.01, 0.1):
        assert np.linalg.norm((1 - step) * nearest + step * others - scaled, axis=0).min() >= best
