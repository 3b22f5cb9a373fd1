"""Lists with reasons: each against a brute-force look at what spoke for the item."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, RankingWeights, simulate
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.explain import (
    COMPONENT,
    ITEM,
    POPULAR,
    explain_row,
    similar_scores,
    strongest,
)
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.low_pass import LowPass, scaled_pairs
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import COMPONENTS, POPULARITY, Histories
from mom_pipeline.core.ranking.recency import Trend


@pytest.fixture(scope="module")
def world():
    truth, X = simulate(120, 40, 3, items_per_user=6, seed=5)
    X = sparse.lil_array(X.astype(float))
    X[7] = 0
    X[:, 5] = 0  # nobody has taken it
    X = sparse.csr_array(X)
    users = np.bincount(X.indices, minlength=40)
    model = FittedModel(
        truth.item_probs,
        truth.weights,
        users / users.sum(),
        Personalization("em"),
        None,
        {},
    )
    return model, X


PAIRS_AND_LOW_PASS = RankingWeights(low_pass=0.5, ease=0.0, components=0.0)


@pytest.fixture(scope="module")
def three_moment(world):
    model, X = world
    M2 = scaled_pairs(UsersInMemory(X), 0.5, 0.25, np.float64)
    low_pass = LowPass.from_pairs(M2, np.random.default_rng(0), rank=4, tol=1e-6, max_passes=50)
    return replace(
        model, pair_ranking=PairRanking.from_users(UsersInMemory(X), low_pass, PAIRS_AND_LOW_PASS)
    )


def test_the_component_that_contributed_most_is_the_reason(world):
    model, X = world
    P = model.memberships(X)
    lists = reasoned_lists(X, P, model, 5)
    for user in (0, 3, 99):
        for rank, item in enumerate(lists.items[user]):
            assert lists.kinds[user, rank] == COMPONENT
            assert lists.causes[user, rank] == np.argmax(P[user] * model.item_probs[item])
    assert len(np.unique(lists.causes)) > 2


def test_the_item_of_the_history_that_contributed_most_is_the_reason(world, three_moment):
    """What an item adds: scores are sums over the history, so those of it alone, scaled alike."""
    model, (_, X) = three_moment, world
    lists = reasoned_lists(X, model.memberships(X), model, 5)
    ranking, w = model.pair_ranking, PAIRS_AND_LOW_PASS
    alone = Histories(sparse.csr_array(np.eye(40)), model.memberships)
    pairs = ranking.pairs.scores(alone)
    low_pass = replace(ranking.low_pass, ridge=w.low_pass_ridge).scores(alone)
    by_pairs_alone = []
    for user in (0, 3, 99):
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        unseen = np.setdiff1d(np.arange(40), history)
        terms = w.pairs * pairs[history] / pairs[history].sum(axis=0)[unseen].max()
        terms += w.low_pass * low_pass[history] / low_pass[history].sum(axis=0)[unseen].max()
        for rank, item in enumerate(lists.items[user]):
            assert lists.kinds[user, rank] == ITEM
            assert lists.causes[user, rank] == history[np.argmax(terms[:, item])]
            by_pairs_alone.append(history[np.argmax(pairs[history, item])])
    assert by_pairs_alone != lists.causes[[0, 3, 99]].ravel().tolist()


def test_blocks_do_not_change_the_reasons(world, three_moment, monkeypatch):
    _, X = world
    whole = reasoned_lists(X, three_moment.memberships(X), three_moment, 5)
    monkeypatch.setattr("mom_pipeline.core.ranking.explain._USERS_PER_BLOCK", 7)
    monkeypatch.setattr("mom_pipeline.core.ranking.explain._TERMS", 100)
    blocks = reasoned_lists(X, three_moment.memberships(X), three_moment, 5)
    np.testing.assert_array_equal(blocks.causes, whole.causes)
    np.testing.assert_array_equal(blocks.kinds, whole.kinds)


@pytest.mark.parametrize("ranking", ["components", "three-moment"])
def test_without_a_history_popular_items_and_marked_as_such(world, three_moment, ranking):
    model, X = world
    model = model if ranking == "components" else three_moment
    lists = reasoned_lists(X, model.memberships(X), model, 5)
    expected = np.argsort(-model.popularity, kind="stable")[:5]
    np.testing.assert_array_equal(lists.items[7], expected)
    np.testing.assert_allclose(lists.scores[7], model.popularity[expected])
    assert (lists.kinds[7] == POPULAR).all()


@pytest.mark.parametrize("ranking", ["components", "three-moment"])
def test_lists_are_short_and_not_padded(world, three_moment, ranking):
    model, X = world
    item_probs = model.item_probs.copy()
    item_probs[5] = 0
    model = replace(model if ranking == "components" else three_moment, item_probs=item_probs)
    lists = reasoned_lists(X, model.memberships(X), model, 60)
    for user in range(X.shape[0]):
        listed = lists.items[user][lists.items[user] >= 0]
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        assert set(listed) == set(np.flatnonzero(model.popularity)) - set(history)
        assert len(listed) == len(set(listed)) < 40 - len(history)
        assert (lists.items[user][len(listed) :] == -1).all()


@pytest.fixture(scope="module", params=["components", "three-moment", "all parts"])
def fitted(request):
    X = simulate(300, 120, 4, items_per_user=8, seed=0)[1]
    ranking = "components" if request.param == "components" else "three-moment"
    weights = None
    if request.param == "all parts":
        weights = RankingWeights(popularity=0.2, ease=0.3, low_pass=0.5, components=0.7)
    how = {"personalization": "em", "ranking": ranking, "ranking_weights": weights}
    return MethodOfMoments(4, rows="counts", **how).fit(X).fitted, X


def test_every_score_is_accounted_for(fitted):
    model, X = fitted
    best = model.best(X[:20], 10)
    for user in range(20):
        why = explain_row(model, X[[user]], best.items[user])
        scores = best.scores[user]
        np.testing.assert_allclose(why.best.scores[0], scores, rtol=1e-5)
        np.testing.assert_allclose(sum(why.by_part.values()), scores, rtol=1e-5)
        components = why.by_part.get(COMPONENTS, np.zeros(10))
        by_component = why.by_component.sum(axis=1)
        np.testing.assert_allclose(by_component, components, rtol=1e-4, atol=1e-9)
        rest = scores - why.by_part.get(POPULARITY, 0.0)
        np.testing.assert_allclose(why.by_history.sum(axis=1), rest, rtol=1e-4, atol=1e-5)


def test_the_largest_terms_are_those_of_histories_of_one_item(fitted):
    """Also with a trend, weighted histories, users without one, and lists that are short."""
    model, X = fitted
    if model.pair_ranking is None:
        return
    weights = replace(model.pair_ranking.weights, trend=1.0)
    trend = Trend(1.0, np.linspace(9.0, 36.0, 120), np.full(120, 40.0), 30.0)
    ranking = replace(model.pair_ranking, weights=weights, trend=trend)
    model = replace(model, pair_ranking=ranking)
    factors = trend.factors(1.0)
    X = sparse.csr_array(X[:40] * np.linspace(0.1, 1, 120))
    X.data[X.indptr[3] : X.indptr[4]] = 0
    X.eliminate_zeros()
    P, best = model.memberships(X), model.best(X, 118)
    why = strongest(model, X, P, best)
    alone = model.histories(sparse.csr_array(np.eye(120)))
    terms = {part.name: part.scores(alone) for part, _ in model.top().score.parts}
    added = [name for name in terms if name not in (COMPONENTS, POPULARITY)]
    assert (best.items < 0).any()
    assert X[[3]].nnz == 0
    for user in range(40):
        listed, history = best.items[user][best.items[user] >= 0], X[[user]].indices
        whole = sum(best.factors[name][user] * terms[name][history] for name in added)
        largest = (whole * np.minimum(X[[user]].data, 1.0)[:, None])[:, listed]
        of_items = why.kinds[user, : len(listed)] == ITEM
        if len(history):
            expected = largest.max(axis=0) * factors[listed]
            np.testing.assert_allclose(
                why.terms[user, : len(listed)][of_items], expected[of_items], rtol=1e-4
            )
            expected = history[largest.argmax(axis=0)]
            np.testing.assert_array_equal(
                why.causes[user, : len(listed)][of_items], expected[of_items]
            )
        assert of_items.any() == bool(len(history))
        assert (why.kinds[user, len(listed) :] == POPULAR).all()
        assert (why.causes[user, len(listed) :] == -1).all()


def test_a_seen_item_can_be_explained(fitted):
    model, X = fitted
    seen = X[[0]].indices[:2].astype(np.int64)
    expected = model.scores(X[[0]])[0, seen]
    np.testing.assert_allclose(explain_row(model, X[[0]], seen).best.scores[0], expected, rtol=1e-4)


def test_similar_items_are_symmetric(fitted):
    model, _ = fitted
    table = np.stack([similar_scores(model, item) for item in range(120)])
    np.testing.assert_allclose(table, table.T, rtol=1e-4, atol=1e-7)
    assert np.isfinite(table).all()
    assert table.max() > 0
