"""One user at a time gives what the whole matrix gives, and every score is accounted for."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.bounded_top import BoundedTop
from mom_pipeline.core.ranking.explain import (
    by_class,
    by_history,
    classes_by_history,
    similar_scores,
)
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.one_user import History, OneUserRanking
from mom_pipeline.core.ranking.score import CLASSES, POPULARITY, RankingWeights
from mom_pipeline.core.ranking.topn import recommend_top, top_n

N, D, K = 300, 120, 4


@pytest.fixture(scope="module")
def data():
    return simulate(N, D, K, items_per_user=8, seed=0)[1]


def all_parts(fitted):
    weights = RankingWeights(popularity=0.2, explained=0.3, classes=0.7)
    return replace(fitted, pair_ranking=replace(fitted.pair_ranking, weights=weights))


@pytest.fixture(scope="module", params=["product", "tempered", "em", "three-moment", "all parts"])
def fitted(request, data):
    rule = request.param if request.param in ("product", "tempered", "em") else "em"
    ranking = "classes" if request.param == rule else "three-moment"
    model = MethodOfMoments(K, personalization=rule, ranking=ranking).fit(data).fitted
    return all_parts(model) if request.param == "all parts" else model


def history(X, user):
    own = slice(X.indptr[user], X.indptr[user + 1])
    return History(X.indices[own], X.data[own])


def assert_best_of_all(O, P, n, hidden, found, rounding):
    """The list is that of all items; of n places the share `rounding` may be near-ties."""
    scores = O @ P
    scores[hidden] = -np.inf
    expected, values = top_n(scores[None], n)
    items, own = found
    np.testing.assert_allclose(own, values[0], rtol=1e-5)
    assert len(np.setdiff1d(items, expected[0])) <= rounding * n


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_are_those_of_the_whole_matrix(fitted, data, exclude_seen):
    scorer = fitted.class_scores if fitted.pair_ranking is None else fitted.three_moment_scores
    ids, scores = recommend_top(data, scorer, 10, exclude_seen=exclude_seen)
    ranking = OneUserRanking(fitted)
    for user in range(40):
        ranked = ranking.best(history(data, user), 10, exclude_seen=exclude_seen)
        np.testing.assert_allclose(ranked.scores, scores[user], rtol=1e-5)
        np.testing.assert_array_equal(ranked.items, ids[user])


def test_memberships_are_those_of_the_whole_matrix(fitted, data):
    P = fitted.memberships(data)
    ranking = OneUserRanking(fitted)
    for user in range(40):
        own = ranking.memberships(history(data, user))
        np.testing.assert_allclose(own, P[user], rtol=1e-4, atol=1e-9)
    nothing = History(np.empty(0, dtype=np.int64), np.empty(0))
    np.testing.assert_allclose(ranking.memberships(nothing), fitted.weights, rtol=1e-5)


def test_every_score_is_accounted_for(fitted, data):
    ranking = OneUserRanking(fitted)
    for user in range(20):
        own = history(data, user)
        ranked = ranking.best(own, 10)
        np.testing.assert_allclose(sum(ranked.parts.values()), ranked.scores, rtol=1e-5)
        classes, pairs = by_class(fitted, ranked), np.zeros((10, len(own.items)))
        if fitted.pair_ranking is not None:
            pairs = by_history(fitted.pair_ranking, own.items, ranked.items, ranked.factors)
        classes_part = ranked.parts.get(CLASSES, np.zeros(10))
        np.testing.assert_allclose(classes.sum(axis=1), classes_part, rtol=1e-4, atol=1e-9)
        rest = ranked.scores - classes_part - ranked.parts.get(POPULARITY, 0.0)
        np.testing.assert_allclose(pairs.sum(axis=1), rest, rtol=1e-4, atol=1e-5)
        credited = classes_by_history(fitted, own, ranked, classes)
        np.testing.assert_allclose(credited.sum(axis=1), classes_part, rtol=1e-4, atol=1e-9)
        again = ranking.at(own, ranked.items)
        np.testing.assert_allclose(again.scores, ranked.scores, rtol=1e-5)


@pytest.mark.parametrize("concentration", [0.02, 1.0, 50.0])
def test_the_bound_loses_nothing(concentration):
    rng = np.random.default_rng(0)
    O = rng.gamma(concentration, size=(9000, 6)).astype(np.float32)
    O[rng.random(O.shape) < 0.3] = 0
    O /= O.sum(axis=0)
    top = BoundedTop.of(O)
    for n in (1, 20, 700):
        P = rng.dirichlet(np.full(6, 0.3)).astype(np.float32)
        hidden = rng.choice(9000, 50, replace=False)
        assert_best_of_all(O, P, n, hidden, top.best(P, n, hidden), rounding=0.01)


@pytest.mark.parametrize("spread", [0.02, 0.3, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_that_are_not_read_lose_nothing(spread, dtype):
    """Items all alike in popularity, users of few classes and of all of them."""
    rng = np.random.default_rng(1)
    O = rng.gamma(0.3, size=(30_000, 50)).astype(dtype)
    O /= O.sum(axis=0)
    top = BoundedTop.of(O)
    for n in (1, 20, 3000):
        P = rng.dirichlet(np.full(50, spread)).astype(dtype)
        hidden = rng.choice(30_000, 50, replace=False)
        assert_best_of_all(O, P, n, hidden, top.best(P, n, hidden), rounding=0.001)


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_the_low_pass_bound_loses_nothing(skew):
    rng = np.random.default_rng(0)
    n_items, rank = 20_000, 12
    steep = np.arange(1, n_items + 1)[:, None] ** -skew
    basis = np.linalg.qr(steep * rng.normal(size=(n_items, rank)))[0].astype(np.float32)
    low_pass = LowPass(basis, rng.uniform(0.5, 2.0, n_items), np.linspace(9.0, 1.0, rank))
    X = sparse.random_array((60, n_items), density=1e-3, rng=rng, format="csr")
    weights = RankingWeights(popularity=0.3)
    model = FittedModel(
        item_probs=np.full((n_items, 2), 1 / n_items, dtype=np.float32),
        weights=np.array([0.5, 0.5]),
        popularity=np.full(n_items, 1 / n_items),
        basis=basis,
        personalization=Personalization(),
        pair_ranking=PairRanking(X, low_pass, weights),
        diagnostics={},
    )
    ids, scores = recommend_top(X, model.three_moment_scores, 30)
    ranking = OneUserRanking(model)
    for user in range(60):
        ranked = ranking.best(history(X, user), 30)
        np.testing.assert_allclose(ranked.scores, scores[user], rtol=1e-4)
        assert len(np.setdiff1d(ranked.items, ids[user])) <= 1  # equal up to rounding


def test_ties_and_short_lists():
    top = BoundedTop.of(np.full((10, 2), 0.1, dtype=np.float32))
    half = np.array([0.5, 0.5], dtype=np.float32)
    assert list(top.best(half, 3, np.array([0, 2]))[0]) == [1, 3, 4]
    assert list(top.best(half, 50, np.arange(9))[0]) == [9]


def test_similar_items_are_symmetric(fitted):
    table = np.stack([similar_scores(fitted, item) for item in range(D)])
    np.testing.assert_allclose(table, table.T, rtol=1e-4, atol=1e-7)
    assert np.isfinite(table).all()
    assert table.max() > 0
