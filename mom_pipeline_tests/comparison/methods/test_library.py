"""The rivals of `implicit`: the same scores as the library's own."""

import numpy as np
import pytest
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender
from scipy import sparse

from mom_pipeline.comparison.methods.interface import weighted
from mom_pipeline.comparison.methods.library import (
    as_user_items,
    fit_bpr,
    fit_item_knn,
    fit_wrmf,
)
from mom_pipeline.core.threads import one_blas_thread

BPR = {"factors": 5, "iterations": 10, "learning_rate": 0.1, "regularization": 0.02}
WRMF = {"factors": 6, "regularization": 0.3, "alpha": 4.0, "iterations": 5, "values": "log"}


@pytest.fixture
def past(past_and_future):
    return past_and_future[0]


def test_values_as_the_method_sees_them(counts):
    before = counts.data.copy()
    for values, expected in [
        ("counts", before),
        ("binary", np.ones(counts.nnz)),
        ("log", np.log2(1 + before)),
    ]:
        seen = weighted(counts, values)
        np.testing.assert_array_equal(seen.data, expected)
        np.testing.assert_array_equal(seen.indices, counts.indices)
    np.testing.assert_array_equal(counts.data, before)


@pytest.mark.parametrize(("fit", "settings"), [(fit_bpr, BPR), (fit_wrmf, WRMF)])
def test_same_seed_same_scores_and_another_seed_others(past, fit, settings):
    def scores(seed):
        fitted = fit(past, seed, **settings)
        return fitted.scores((past if fitted.histories is None else fitted.histories)[:50])

    np.testing.assert_array_equal(scores(1), scores(1))
    assert np.abs(scores(1) - scores(2)).max() > 1e-4


def test_bpr_scores_its_users_by_their_own_factors(past):
    model = BayesianPersonalizedRanking(**BPR, num_threads=1, random_state=4)
    model.fit(as_user_items(past), show_progress=False)
    fitted = fit_bpr(past, 4, **BPR)
    users = [260, 200, 31]
    expected = model.user_factors[users] @ model.item_factors.T
    np.testing.assert_allclose(
        fitted.scores(fitted.histories[users]), expected, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(fitted.histories.indices, past.indices)


def test_wrmf_scores_are_those_of_implicit(past):
    fitted = fit_wrmf(past, 3, **WRMF)
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


def test_item_knn_scores_are_those_of_implicit(past):
    fitted = fit_item_knn(past, 0, neighbours=7, values="counts")
    model, user_items = CosineRecommender(K=7), as_user_items(past)
    model.fit(user_items, show_progress=False)
    scores = fitted.scores(past[:40])
    for user in range(40):
        ids, values = model.recommend(user, user_items[user], N=5)
        found = values > 0  # where there are no five, the rest is filled up
        np.testing.assert_allclose(scores[user, ids[found]], values[found], rtol=1e-6)


def test_the_cosine_of_two_items_by_hand():
    X = sparse.csr_array(np.array([[1.0, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]]))
    scores = fit_item_knn(X, 0).scores(sparse.csr_array([[0.0, 1, 0]]))
    np.testing.assert_allclose(scores, [[2 / np.sqrt(4 * 2), 1, 0]])
