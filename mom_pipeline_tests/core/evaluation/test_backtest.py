from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.lists import memberships_of
from mom_pipeline.core.ranking.memberships import Personalization


@pytest.fixture(scope="module")
def world():
    truth, X = simulate(600, 90, 3, items_per_user=10, seed=5)
    popularity = np.bincount(X.indices, minlength=90)
    model = FittedModel(
        truth.item_probs,
        truth.weights,
        popularity / popularity.sum(),
        Personalization("em"),
        None,
        {},
    )
    return model, sparse.csr_array(X.astype(float))


def test_everybody_has_memberships(world):
    model, X = world
    P = memberships_of(model, UsersInMemory(X), np.full((X.shape[0], 3), np.nan))
    np.testing.assert_array_equal(P, model.memberships(X))


def test_a_backtest_compares_with_popularity_on_users_with_a_history(world):
    model, X = world
    rng = np.random.default_rng(0)
    later = X.toarray() * (rng.random(X.shape) < 0.3)
    train = sparse.csr_array((X.toarray() - later)[:500])
    result = backtest(model, UsersInMemory(train), sparse.csr_array(later), (5, 20))
    assert result is not None
    history = np.append(np.diff(train.indptr) > 0, np.zeros(100, dtype=bool))
    assert result.n_newcomers == int(((later.sum(axis=1) > 0) & ~history).sum())
    assert result.model.recall[20] > result.popularity.recall[20] > 0
    assert result.model.n_users == result.popularity.n_users <= 500


def test_popularity_is_by_users_and_no_item_of_nobody_is_listed(world):
    """One user's many events make no item popular."""
    train = np.zeros((4, 90))
    train[0, 7] = 100
    train[:3, 8] = 1
    train[3, 9] = 1
    later = np.zeros((4, 90))
    later[3, [8, 20]] = 1
    taken = (train > 0).sum(axis=0)
    model = replace(world[0], popularity=taken / taken.sum())
    result = backtest(
        model, UsersInMemory(sparse.csr_array(train)), sparse.csr_array(later), (1, 20)
    )
    assert result.popularity.precision[1] == 1
    assert result.popularity.recall[20] == 0.5
