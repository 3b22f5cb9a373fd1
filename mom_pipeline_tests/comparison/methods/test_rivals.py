"""Popularity by hand, `implicit` by the library's own lists, EASE by its closed form."""

import numpy as np
import pytest
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.nearest_neighbours import CosineRecommender
from scipy import sparse

from mom_pipeline.comparison.methods import rivals
from mom_pipeline.comparison.methods.plsi import fit_plsi
from mom_pipeline.comparison.methods.rivals import (
    as_user_items,
    fit_bpr,
    fit_ease,
    fit_item_knn,
    fit_popularity,
    fit_recent_popularity,
    fit_wrmf,
    item_weights,
)
from mom_pipeline.core.interactions import weighted_rows
from mom_pipeline.core.threads import one_blas_thread

BPR = {"factors": 5, "iterations": 10, "learning_rate": 0.1, "regularization": 0.02}
WRMF = {"factors": 6, "regularization": 0.3, "alpha": 4.0, "iterations": 5}


@pytest.mark.parametrize(
    ("values", "expected"),
    [("binary", [5, 5, 4, 4, 3, 3]), ("counts", [9, 8, 4, 4, 5, 3])],
)
def test_items_are_scored_by_their_users_or_their_events(counts, values, expected):
    fitted = fit_popularity(counts, 0, values=values)
    scores = fitted.scores(np.arange(3))
    np.testing.assert_array_equal(scores, [expected] * 3)
    scores[:] = -np.inf  # whoever makes lists writes to a block
    np.testing.assert_array_equal(fitted.scores(np.arange(3)), [expected] * 3)


def test_users_of_late_count_for_more():
    days = sparse.csr_array(np.array([[100.0, 0, 0], [98, 100, 0], [0, 96, 0]]))
    scores = fit_recent_popularity(days, 0, half_life=2.0, last_days=days).scores(np.arange(1))
    np.testing.assert_allclose(scores, [[1.5, 1.25, 0]])


@pytest.mark.parametrize(
    ("fit", "settings"),
    [(fit_bpr, BPR), (fit_wrmf, WRMF), (fit_plsi, {"n_components": 4})],
)
def test_same_seed_same_scores_and_another_seed_others(past, fit, settings):
    def scores(seed):
        return fit(past, seed, **settings).scores(np.arange(50))

    np.testing.assert_array_equal(scores(1), scores(1))
    assert np.abs(scores(1) - scores(2)).max() > 1e-4


def test_bpr_scores_its_users_by_their_own_factors(past):
    model = BayesianPersonalizedRanking(**BPR, num_threads=1, random_state=4)
    model.fit(as_user_items(past), show_progress=False)
    fitted = fit_bpr(past, 4, **BPR)
    users = [260, 200, 31]
    expected = model.user_factors[users] @ model.item_factors.T
    np.testing.assert_allclose(fitted.scores(users), expected, rtol=1e-5, atol=1e-6)


def test_wrmf_scores_are_those_of_implicit(past):
    fitted = fit_wrmf(past, 3, **WRMF, values="log")
    user_items = as_user_items(weighted_rows(past, "log"))
    with one_blas_thread():
        model = AlternatingLeastSquares(**WRMF, random_state=3)
        model.fit(user_items, show_progress=False)
        users = np.arange(40)
        ids, values = model.recommend(users, user_items[users], N=10, recalculate_user=True)
    scores = fitted.scores(np.arange(40))
    np.testing.assert_allclose(np.take_along_axis(scores, ids, axis=1), values, rtol=1e-4)
    scores[past[:40].toarray() > 0] = -np.inf
    np.testing.assert_allclose(-np.sort(-scores, axis=1)[:, :10], values, rtol=1e-4)


def test_item_knn_scores_are_those_of_implicit(past):
    fitted = fit_item_knn(past, 0, neighbours=7)
    model, user_items = CosineRecommender(K=7), as_user_items(past.astype(bool))
    model.fit(user_items, show_progress=False)
    scores = fitted.scores(np.arange(40))
    for user in range(40):
        ids, values = model.recommend(user, user_items[user], N=5)
        found = values > 0  # where there are no five, the rest is filled up
        np.testing.assert_allclose(scores[user, ids[found]], values[found], rtol=1e-6)


@pytest.fixture
def many():
    return sparse.csr_array(np.random.default_rng(7).poisson(0.15, size=(300, 90)).astype(float))


def closed_form(X, ridge):
    P = np.linalg.inv(X.T @ X + ridge * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    return B


@pytest.mark.parametrize("columns", [7, 512])
def test_weights_of_ease_equal_the_closed_form(many, columns, monkeypatch):
    monkeypatch.setattr(rivals, "_COLUMNS_PER_BLOCK", columns)
    expected = closed_form(many.toarray(), 3.0)
    np.testing.assert_allclose(item_weights(many, 3.0), expected, rtol=1e-9, atol=1e-14)
    monkeypatch.setattr(rivals, "_SINGLE_FROM", 10)
    B = item_weights(many, 3.0)
    assert B.dtype == np.float32
    np.testing.assert_allclose(B, expected, atol=1e-5)


def test_scores_are_the_history_times_the_weights(many):
    fitted = fit_ease(many, 0, regularization=4.0, values="log")
    seen = np.log2(1 + many.toarray())
    np.testing.assert_allclose(
        fitted.scores(np.arange(300)), seen @ closed_form(seen, 4.0), atol=1e-10
    )


def test_more_items_than_the_machine_has_memory_for_are_refused(many, monkeypatch):
    monkeypatch.setattr(rivals, "memory_of_machine", lambda: 100_000)
    with pytest.raises(MemoryError):
        fit_ease(many, 0)
