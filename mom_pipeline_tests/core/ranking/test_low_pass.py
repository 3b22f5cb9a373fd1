import numpy as np
import pytest

from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.pair_scores import as_binary, pair_counts


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.4, size=(90, 25)).astype(float))


@pytest.fixture
def whole(X):
    return eigenpairs(X, 0.5)


def eigenpairs(X, user_exponent):
    rng = np.random.default_rng(0)
    return LowPass.of(
        X, 25, rng, user_exponent=user_exponent, dtype=np.float64, tol=1e-9, max_passes=10
    )


@pytest.mark.parametrize("user_exponent", [0.5, 1.0])
def test_of_all_eigenpairs_it_is_a_dense_solve(X, user_exponent):
    whole, once = eigenpairs(X, user_exponent), as_binary(X).toarray()
    S = np.diag(np.maximum(once.sum(axis=0), 1.0) ** (-user_exponent / 2))
    M2 = S @ pair_counts(X, user_exponent).toarray() @ S
    ridge = 3.0 * np.diag(M2).mean()
    expected = once @ S @ np.linalg.solve(M2 + ridge * np.eye(25), M2) @ np.linalg.inv(S)
    np.testing.assert_allclose(whole.scores(as_binary(X), 3.0), expected, rtol=1e-4, atol=1e-6)


def test_without_a_ridge_it_is_a_projection(X, whole):
    cut = LowPass(whole.basis[:, :4], whole.item_scale, whole.strengths[:4])
    S, V = np.diag(cut.item_scale), cut.basis
    expected = X.toarray() @ S @ V @ V.T @ np.linalg.inv(S)
    np.testing.assert_allclose(cut.scores(X, 0.0), expected, rtol=1e-9, atol=1e-12)
    only_span = LowPass(cut.basis, cut.item_scale, np.full(4, np.inf))
    np.testing.assert_allclose(only_span.scores(X, 5.0), expected, rtol=1e-9, atol=1e-12)


def test_scores_of_some_items_are_those_of_all(X, whole, rng):
    items = rng.integers(0, 25, size=(90, 7))
    found = whole.scores_at(X, items, [0.0, 2.0])
    for part, ridge in zip(found, (0.0, 2.0), strict=True):
        expected = np.take_along_axis(whole.scores(X, ridge), items, axis=1)
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-12)


def test_a_direction_without_strength_does_not_pass(whole, X):
    nothing = LowPass(whole.basis, whole.item_scale, np.zeros(25))
    np.testing.assert_array_equal(nothing.scores(X, 1.0), 0.0)
