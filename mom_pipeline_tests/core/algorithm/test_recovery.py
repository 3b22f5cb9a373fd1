import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from mom_pipeline.core.algorithm.decomposition import Decomposition, decompose
from mom_pipeline.core.algorithm.recovery import recover
from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.simulation import LatentClasses, draw_classes


def from_population(truth: LatentClasses, scale: np.ndarray, method, projection, rng):
    """Run steps 2 to 8 on the exact moments of a known model, in a scaled item space."""
    O, pi = truth.item_probs * scale[:, None], truth.weights
    whitening = whiten(PairMoments.exact((O * pi) @ O.T), len(pi), rng)
    projected = whitening.matrix.T @ O
    T = np.einsum("k,ik,jk,lk->ijl", pi, projected, projected, projected)
    found = decompose(T, rng, method=method)
    return recover(whitening, found, scale, projection=projection)


@pytest.mark.parametrize("n_items", [40, 800])
@pytest.mark.parametrize("method", ["simultaneous", "deflation"])
@pytest.mark.parametrize("projection", ["clip", "simplex"])
@pytest.mark.parametrize("scaled", [False, True])
def test_exact_moments_recover_the_truth(n_items, method, projection, scaled, rng):
    truth = draw_classes(n_items, 5, rng)
    scale = rng.uniform(0.2, 3.0, n_items) if scaled else np.ones(n_items)
    found = from_population(truth, scale, method, projection, rng)
    distance = np.abs(found.item_probs[:, :, None] - truth.item_probs[:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(distance)
    assert distance[rows, columns].max() < 1e-6
    np.testing.assert_allclose(found.weights[rows], truth.weights[columns], atol=1e-6)
    assert found.weight_sum == pytest.approx(1.0, abs=1e-6)
    assert found.negative_mass < 1e-6


def test_relabelling_the_items_permutes_the_rows_of_o(classes, rng):
    order = rng.permutation(40)
    relabelled = LatentClasses(classes.item_probs[order], classes.weights)
    ones = np.ones(40)
    first = from_population(classes, ones, "simultaneous", "clip", np.random.default_rng(0))
    second = from_population(relabelled, ones, "simultaneous", "clip", np.random.default_rng(0))
    np.testing.assert_allclose(second.item_probs, first.item_probs[order], atol=1e-8)


@pytest.mark.parametrize("projection", ["clip", "simplex"])
def test_negative_entries_are_removed_and_reported(projection, rng):
    whitening = whiten(PairMoments.exact(np.diag([3.0, 2.0, 1.0])), 3, rng)
    V = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    found = recover(
        whitening,
        Decomposition(np.array([1.5, 2, 3]), V, 0.0, 1),
        np.ones(3),
        projection=projection,
    )
    assert found.item_probs.min() >= 0
    np.testing.assert_allclose(found.item_probs.sum(axis=0), 1.0, rtol=1e-12)
    assert 0.01 < found.negative_mass < 0.6
    assert found.weight_sum == pytest.approx(1 / 2.25 + 1 / 4 + 1 / 9)


def test_a_vanishing_eigenvalue_cannot_take_all_the_weight(rng):
    whitening = whiten(PairMoments.exact(np.diag([3.0, 2.0])), 2, rng)
    found = recover(whitening, Decomposition(np.array([0.0, 2.0]), np.eye(2), 0.0, 1), np.ones(2))
    np.testing.assert_allclose(found.weights, [0.8, 0.2])


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


def test_unknown_projection_is_refused(rng):
    whitening = whiten(PairMoments.exact(np.eye(2)), 2, rng)
    with pytest.raises(InvalidSetting, match="clip"):
        recover(whitening, Decomposition(np.ones(2), np.eye(2), 0, 1), np.ones(2), projection="abs")
