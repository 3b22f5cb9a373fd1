from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.evaluation.backtest import (
    best_items,
    foresight,
    posterior_entropy,
    refreshed,
)
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.topn import recommend_top


@pytest.fixture(scope="module")
def world():
    truth, X = simulate(600, 90, 3, items_per_user=10, seed=5)
    popularity = np.asarray(X.sum(axis=0)).ravel()
    model = FittedModel(
        truth.item_probs,
        truth.weights,
        popularity / popularity.sum(),
        np.empty((90, 0)),
        Personalization("em"),
        None,
        {},
    )
    return model, sparse.csr_array(X.astype(float))


def test_only_the_users_asked_for_are_refreshed(world):
    model, X = world
    before = np.full((590, 3), 1 / 3)
    P = refreshed(before, X, np.array([4, 595]), model)
    np.testing.assert_allclose(P[[4, 595]], model.memberships(X[[4, 595]]))
    assert (P[5] == 1 / 3).all()
    np.testing.assert_array_equal(refreshed(None, X, np.array([4]), model), model.memberships(X))


def test_entropy_in_bits():
    P = np.array([[0.5, 0.5, 0], [1, 0, 0]])
    np.testing.assert_allclose(posterior_entropy(P), [1, 0], atol=1e-12)


def test_lists_from_stored_posteriors_equal_those_from_the_rows(world):
    model, X = world
    found = best_items(X, model.memberships(X), model, 7)
    expected, expected_scores = recommend_top(X, model.class_scores, 7)
    np.testing.assert_array_equal(found.items, expected)
    np.testing.assert_allclose(found.scores, expected_scores)


def test_an_item_that_no_class_of_the_user_can_bring_is_not_listed(world):
    model, X = world
    brings = np.arange(90)[:, None] % 18 == np.arange(3)
    P = np.eye(3)[np.arange(6) % 3]
    few = replace(model, item_probs=model.item_probs * brings)
    found = best_items(X[:6], P, few, 7, exclude_seen=False)
    for user, items in enumerate(found.items):
        brought = np.flatnonzero(brings[:, user % 3] & (model.popularity > 0))
        assert set(items[: len(brought)]) == set(brought)
        np.testing.assert_array_equal(items[len(brought) :], -1)
    np.testing.assert_array_equal(found.scores[found.items < 0], 0)


def test_foresight_compares_with_popularity_on_users_with_a_history(world):
    model, X = world
    rng = np.random.default_rng(0)
    later = X.toarray() * (rng.random(X.shape) < 0.3)
    train = sparse.csr_array((X.toarray() - later)[:500])
    seen = foresight(model, train, sparse.csr_array(later), (5, 20))
    assert seen is not None
    history = np.append(np.diff(train.indptr) > 0, np.zeros(100, dtype=bool))
    assert seen.n_newcomers == int(((later.sum(axis=1) > 0) & ~history).sum())
    assert seen.model.recall[20] > seen.popularity.recall[20] > 0
    assert seen.model.n_users == seen.popularity.n_users <= 500


def test_nothing_to_foresee(world):
    model, X = world
    assert foresight(model, X, X, (5,)) is None
