import numpy as np
import pytest
from implicit.cpu.als import AlternatingLeastSquares
from scipy import sparse

from mom_pipeline.comparison.methods.interface import as_user_items, weighted
from mom_pipeline.comparison.methods.wrmf import fit_wrmf
from mom_pipeline.core.threads import one_blas_thread

SETTINGS = {
    "factors": 6,
    "regularization": 0.3,
    "alpha": 4.0,
    "iterations": 5,
    "values": "log",
}


@pytest.fixture
def past(past_and_future):
    return past_and_future[0]


def test_scores_are_those_of_implicit(past):
    fitted = fit_wrmf(past, SETTINGS, 3)
    user_items = as_user_items(weighted(past, "log"))
    with one_blas_thread():
        model = AlternatingLeastSquares(
            factors=6, regularization=0.3, alpha=4.0, iterations=5, random_state=3
        )
        model.fit(user_items, show_progress=False)
        users = np.arange(40)
        ids, values = model.recommend(users, user_items[users], N=10, recalculate_user=True)
    scores = fitted.scores(past[:40])
    np.testing.assert_allclose(np.take_along_axis(scores, ids, axis=1), values, rtol=1e-4)
    scores[past[:40].toarray() > 0] = -np.inf
    np.testing.assert_allclose(-np.sort(-scores, axis=1)[:, :10], values, rtol=1e-4)


def test_users_solve_their_own_least_squares(past):
    """The equation of the docstring, solved densely for one user from the scores of others."""
    fitted = fit_wrmf(past, {**SETTINGS, "alpha": 1.0, "values": "binary"}, 3)
    # With all confidences 1 the scores are linear in the history: those of a sum are the sum.
    rows = past[:2].toarray() > 0
    rows[1] &= ~rows[0]
    both = sparse.csr_array((rows[0] | rows[1]).astype(float)[None])
    parts = fitted.scores(sparse.csr_array(rows.astype(float)))
    np.testing.assert_allclose(fitted.scores(both)[0], parts.sum(axis=0), atol=1e-4)


def test_same_seed_same_scores_and_another_seed_others(past):
    first, again, other = (fit_wrmf(past, SETTINGS, seed).scores(past[:50]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4


def test_an_empty_history_scores_zero(counts):
    scores = fit_wrmf(counts, {**SETTINGS, "factors": 2}, 0).scores(counts)
    np.testing.assert_array_equal(scores[3], 0)
    assert np.abs(scores[0]).max() > 0
