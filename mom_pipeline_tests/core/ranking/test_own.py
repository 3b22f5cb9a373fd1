"""The user's own items as a part of the score, for lists that may hold them."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.explain import ITEM, explain_row, strongest
from mom_pipeline.core.ranking.lists import HistoryOf
from mom_pipeline.core.ranking.parts import Histories, Own

N, D = 300, 30


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(2)
    return sparse.csr_array(rng.poisson(0.4, (N, D)).astype(float))


@pytest.fixture(scope="module")
def model(X):
    return MethodOfMoments(3, ranking_weights=RankingWeights(own=30.0)).fit(X)


def test_an_item_scores_by_how_often_it_was_taken(X):
    rows = Histories(X, lambda rows: rows)
    logs = np.log1p(X.toarray())
    expected = logs / np.maximum(logs.max(axis=1, keepdims=True), 1e-9)
    np.testing.assert_allclose(Own().scores(rows), expected, rtol=1e-6)
    items = np.tile(np.arange(0, D, 4), (N, 1))
    np.testing.assert_allclose(Own().at(rows, items), expected[:, ::4], rtol=1e-6)
    empty = Histories(sparse.csr_array((2, D)), lambda rows: rows)
    assert not Own().scores(empty).any()


def test_lists_hold_the_own_items_first_where_they_may(X, model):
    items, _ = model.recommend(X, 3, exclude_seen=False)
    alone, _ = model.recommend(X[[5]], 3, exclude_seen=False)
    np.testing.assert_array_equal(alone[0], items[5])
    most = X.toarray().max(axis=1)
    taken = most > 1
    first = X.toarray()[np.arange(N), items[:, 0]]
    np.testing.assert_array_equal(first[taken], most[taken])


def test_an_own_item_is_its_own_reason(X, model):
    P = model.transform(X)
    best = model.fitted.best(X, 3, exclude_seen=False, memberships=P)
    why = strongest(model.fitted, X, P, best)
    own = X.toarray()[np.arange(N)[:, None], np.maximum(best.items, 0)] > 1
    assert own.any()
    assert (why.kinds[own] == ITEM).all()
    np.testing.assert_array_equal(why.causes[own], best.items[own])
    parts = explain_row(model.fitted, X[[0]], best.items[0]).by_part
    np.testing.assert_allclose(sum(parts.values()), best.scores[0], rtol=1e-4)


def test_a_backtest_counts_repeats_where_lists_may_hold_them(X, model):
    again = backtest(HistoryOf(model.fitted), UsersInMemory(X), X, (5,), exclude_seen=False)
    assert again is not None
    assert again.model.recall[5] > 0.5 > again.popularity.recall[5]
    assert backtest(HistoryOf(model.fitted), UsersInMemory(X), X, (5,)) is None
