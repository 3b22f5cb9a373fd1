"""Own items, for lists that may hold them."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.explain import ITEM, explain_row, strongest

N, D = 300, 30


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(2)
    return sparse.csr_array(rng.poisson(0.4, (N, D)).astype(float))


@pytest.fixture(scope="module")
def model(X):
    weights = RankingWeights(had=(30.0, 0.0), times=(9.0, 0.0))
    return MethodOfMoments(3, ranking_weights=weights).fit(X)


def test_lists_hold_the_own_items_first_where_they_may(X, model):
    items, _ = model.recommend(X, 3, exclude_seen=False)
    alone, _ = model.recommend(X[[5]], 3, exclude_seen=False)
    np.testing.assert_array_equal(alone[0], items[5])
    most = X.toarray().max(axis=1)
    first = X.toarray()[np.arange(N), items[:, 0]]
    np.testing.assert_array_equal(first[most > 1], most[most > 1])


def test_what_was_taken_of_late_comes_before_what_was_taken_long_ago(X):
    days = X.copy()
    days.data = np.where(days.indices % 2, 100.0, 10.0)
    weights = RankingWeights(had=(30.0, 0.0), times=(0.0, 0.0), since=(-5.0, 0.0))
    model = MethodOfMoments(3, ranking_weights=weights).fit(X, last_days=days)
    items, _ = model.recommend(X, 1, exclude_seen=False, last_days=days)
    late = (X.toarray() * (np.arange(D) % 2)).any(axis=1)
    assert (items[late, 0] % 2 == 1).all()


def test_an_own_item_is_its_own_reason(X, model):
    rows = model.fitted.histories(X)
    best = model.fitted.top().best(rows, 3, exclude_seen=False)
    why = strongest(model.fitted, rows, best)
    own = X.toarray()[np.arange(N)[:, None], np.maximum(best.items, 0)] > 1
    assert own.any()
    assert (why.kinds[own] == ITEM).all()
    np.testing.assert_array_equal(why.causes[own], best.items[own])
    one = model.fitted.histories(X[[0]])
    parts = explain_row(model.fitted, one, best.items[0], exclude_seen=False).by_part
    np.testing.assert_allclose(sum(parts.values()), best.scores[0], rtol=1e-4)


def test_a_backtest_counts_repeats_where_lists_may_hold_them(X, model):
    again = backtest(model.fitted, UsersInMemory(X), X, (5,), exclude_seen=False)
    assert again is not None
    assert again.model.recall[5] > 0.5 > again.popularity.recall[5]
    assert backtest(model.fitted, UsersInMemory(X), X, (5,)) is None
