import numpy as np
import pytest
from implicit.cpu.bpr import BayesianPersonalizedRanking
from scipy import sparse

from mom_pipeline.comparison.methods.bpr import KnownUsers, fit_bpr, row_fingerprints
from mom_pipeline.comparison.methods.interface import as_user_items
from mom_pipeline.core.errors import InvalidInteractions

SETTINGS = {"factors": 5, "iterations": 10, "learning_rate": 0.1, "regularization": 0.02}


@pytest.fixture
def past(past_and_future):
    return past_and_future[0]


def test_same_seed_same_scores_and_another_seed_others(past):
    first, again, other = (fit_bpr(past, SETTINGS, seed).scores(past[:50]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_scores_are_those_of_implicit(past):
    model = BayesianPersonalizedRanking(
        factors=5,
        iterations=10,
        learning_rate=0.1,
        regularization=0.02,
        num_threads=1,
        random_state=4,
    )
    model.fit(as_user_items(past), show_progress=False)
    scores = fit_bpr(past, SETTINGS, 4).scores(past[200:260])
    expected = model.user_factors[200:260] @ model.item_factors.T
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_users_are_found_by_their_history_in_any_order_of_it(counts):
    factors = np.arange(20.0).reshape(10, 2)
    users = KnownUsers.from_factors(counts, factors)
    order = [9, 0, 5, 2]
    np.testing.assert_array_equal(users.factors_of(counts[order]), factors[order])
    # Users 1 and 6 have the same history: the mean of the two stands for both.
    np.testing.assert_array_equal(users.factors_of(counts[[1, 6]]), [[7, 8], [7, 8]])
    reversed_row = counts[[0]]
    reversed_row.indices = reversed_row.indices[::-1].copy()
    reversed_row.data = reversed_row.data[::-1].copy()
    np.testing.assert_array_equal(users.factors_of(reversed_row), factors[[0]])


def test_an_empty_history_gets_the_mean_user(counts):
    factors = np.arange(20.0).reshape(10, 2)
    mean = np.delete(factors, 3, axis=0).mean(axis=0)
    np.testing.assert_allclose(
        KnownUsers.from_factors(counts, factors).factors_of(counts[[3]]), [mean]
    )


def test_a_history_that_was_not_in_the_fit_is_refused(counts):
    fitted = fit_bpr(counts, {"factors": 2, "iterations": 1}, 0)
    stranger = sparse.csr_array([[0.0, 0, 0, 0, 0, 5], [2, 0, 1, 0, 3, 0]])
    with pytest.raises(InvalidInteractions, match="found 1 others among 2; fit it on these users"):
        fitted.scores(stranger)


def test_fingerprints_tell_items_and_counts_apart():
    rows = np.zeros((5, 4))
    rows[0, 0], rows[1, 1], rows[2, 0], rows[3, :2], rows[4, 2:] = 1, 1, 2, 1, 1
    assert len(np.unique(row_fingerprints(sparse.csr_array(rows)))) == 5
