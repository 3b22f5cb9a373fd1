import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.ranking.pair_scores import ExplainedPairs, PairScores, as_binary, pair_counts


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def G(X):
    """The second moment, one user after the other."""
    total = np.zeros((25, 25))
    for row in (X.toarray() > 0).astype(float):
        total += np.outer(row, row) / np.sqrt(max(row.sum(), 1.0))
    return total


def test_counted_pairs_are_the_sum_over_users(X, G):
    np.testing.assert_allclose(pair_counts(X, 0.5).toarray(), G, rtol=1e-5)
    once = (X.toarray() > 0).astype(float)
    by_user = once.T @ (once / np.maximum(once.sum(axis=1, keepdims=True), 1.0))
    np.testing.assert_allclose(pair_counts(X, 1.0).toarray(), by_user, rtol=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 1.5, 2.0])
def test_pair_scores_are_the_formula(X, G, sharpness):
    once = X.toarray() > 0
    c = np.maximum(once.sum(axis=0), 1.0)
    expected = once @ (c[:, None] ** -0.7 * G * c**-0.2) ** sharpness
    found = PairScores.of(X, 0.5, sharpness).scores(as_binary(X), 0.7, 0.2)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_pairs_can_be_sharpened_step_by_step(X):
    steps = PairScores.of(X, 0.5, 1.5).sharpened(2.0)
    np.testing.assert_allclose(
        steps.powers.toarray(), PairScores.of(X, 0.5, 2.0).powers.toarray(), rtol=1e-5
    )


def test_explained_pairs_are_ridge_regressions_of_every_item_on_the_others(X, G):
    ridge = 0.7 * np.diag(G).mean()
    B = ExplainedPairs.of(X, 0.7).matrix
    for y in range(25):
        others = np.delete(np.arange(25), y)
        A = G[np.ix_(others, others)] + ridge * np.eye(24)
        np.testing.assert_allclose(B[others, y], np.linalg.solve(A, G[others, y]), atol=1e-5)
    np.testing.assert_array_equal(np.diag(B), 0.0)
    once = as_binary(X)
    np.testing.assert_allclose(
        ExplainedPairs.of(X, 0.7).scores(once), once.toarray() @ B, rtol=1e-4, atol=1e-6
    )


def test_items_that_nobody_took_are_harmless():
    X = as_interactions(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]))
    assert np.isfinite(ExplainedPairs.of(X, 0.2).matrix).all()
    assert np.isfinite(PairScores.of(X, 0.5, 2.0).scores(X, 0.5, 0.5)).all()


def test_what_cannot_be_inverted_is_refused():
    with pytest.raises(InvalidSetting, match="at most 8192 items"):
        ExplainedPairs.of(sparse.csr_array((2, 9000)), 1.0)
    with pytest.raises(InvalidSetting, match="above 0"):
        ExplainedPairs.of(sparse.csr_array((2, 9)), 0.0)
