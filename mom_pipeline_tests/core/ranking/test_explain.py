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
    POPULARITY,
    RISING,
    TREND,
    explain_row,
    strongest,
)
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import COMPONENTS


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


@pytest.fixture(scope="module")
def three_moment(world):
    model, X = world
    weights = RankingWeights(pairs=(1.0, 0.2), ease=(0.7, 0.0), users=(0.0, 0.0))
    return replace(model, pair_ranking=PairRanking.from_users(UsersInMemory(X), weights))


def test_the_component_that_contributed_most_is_the_reason(world):
    model, X = world
    P = model.memberships(X)
    lists = reasoned_lists(model, model.histories(X), 5)
    for user in (0, 3, 99):
        for rank, item in enumerate(lists.items[user]):
            assert lists.kinds[user, rank] == COMPONENT
            assert lists.causes[user, rank] == np.argmax(P[user] * model.item_probs[item])
    assert len(np.unique(lists.causes)) > 2


def test_the_item_of_the_history_that_contributed_most_is_the_reason(world, three_moment):
    """What an item adds: its share in the plain value of a part times what the part adds."""
    model, (_, X) = three_moment, world
    lists = reasoned_lists(model, model.histories(X), 5)
    alone = model.histories(sparse.csr_array(np.eye(40)))
    score, rows = model.top().score, model.histories(X)
    _, values = score(rows, exclude_seen=True)
    plain = {part.name: part.scores(alone) for part in score.parts}
    named = 0
    for user in (0, 3, 99):
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        for rank, item in enumerate(lists.items[user]):
            terms = np.zeros(len(history))
            for part in score.parts:
                own = plain[part.name][history, item]
                weight = model.pair_ranking.weights.of(
                    part.name, model.pair_ranking.weights.standardised(np.array([len(history)]))
                )
                added = weight * np.log1p(max(own.sum(), 0.0) / values[part.name][user] / 0.02)
                terms += own / own.sum() * added if own.sum() > 0 else 0.0
            if lists.kinds[user, rank] == ITEM:
                named += 1
                assert lists.causes[user, rank] == history[np.argmax(terms)]
    assert named > 7
    assert (lists.kinds == ITEM).mean() > 0.5


def test_blocks_do_not_change_the_reasons(world, three_moment, monkeypatch):
    _, X = world
    whole = reasoned_lists(three_moment, three_moment.histories(X), 5)
    monkeypatch.setattr("mom_pipeline.core.ranking.explain._USERS_PER_BLOCK", 7)
    monkeypatch.setattr("mom_pipeline.core.ranking.explain._TERMS", 100)
    blocks = reasoned_lists(three_moment, three_moment.histories(X), 5)
    np.testing.assert_array_equal(blocks.causes, whole.causes)
    np.testing.assert_array_equal(blocks.kinds, whole.kinds)


@pytest.mark.parametrize("ranking", ["components", "three-moment"])
def test_without_a_history_popular_items_and_marked_as_such(world, three_moment, ranking):
    model, X = world
    model = model if ranking == "components" else three_moment
    lists = reasoned_lists(model, model.histories(X), 5)
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
    lists = reasoned_lists(model, model.histories(X), 60)
    for user in range(X.shape[0]):
        listed = lists.items[user][lists.items[user] >= 0]
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        assert set(listed) == set(np.flatnonzero(model.popularity)) - set(history)
        assert len(listed) == len(set(listed)) < 40 - len(history)
        assert (lists.items[user][len(listed) :] == -1).all()


@pytest.fixture(scope="module", params=["components", "three-moment", "with days"])
def fitted(request):
    X = simulate(300, 120, 4, items_per_user=8, seed=0)[1]
    ranking = "components" if request.param == "components" else "three-moment"
    days = X.astype(float)
    days.data = 50.0 + days.indices % 40
    how = {"personalization": "em", "ranking": ranking, "rows": "counts"}
    last_days = days if request.param == "with days" else None
    return MethodOfMoments(4, **how).fit(X, last_days=last_days).fitted, X


def test_every_score_is_accounted_for(fitted):
    model, X = fitted
    best = model.best(X[:20], 10)
    for user in range(20):
        why = explain_row(model, model.histories(X[[user]]), best.items[user])
        scores = best.scores[user]
        np.testing.assert_allclose(why.best.scores[0], scores, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(sum(why.by_part.values()), scores, rtol=1e-4, atol=1e-4)
        components = why.by_part.get(COMPONENTS, np.zeros(10))
        np.testing.assert_allclose(why.by_component.sum(axis=1), components, rtol=1e-4, atol=1e-9)
        rest = scores - why.by_part.get(POPULARITY, 0.0) - why.by_part.get(TREND, 0.0)
        np.testing.assert_allclose(why.by_history.sum(axis=1), rest, rtol=1e-3, atol=1e-3)


def test_an_item_is_named_as_rising_or_popular_where_that_is_what_speaks_for_it():
    X = simulate(300, 120, 4, items_per_user=8, seed=0)[1]
    days = X.astype(float)
    days.data = np.where(days.indices == 7, 99.0, 10.0)
    for feature, kind in (("trend_14", RISING), ("users", POPULAR)):
        nothing = dict.fromkeys(("pairs", "ease", "users", "trend_14"), (0.0, 0.0))
        weights = RankingWeights(**{**nothing, feature: (5.0, 0.0)})
        model = MethodOfMoments(4, ranking_weights=weights).fit(X, last_days=days).fitted
        rows = model.histories(X[:50])
        best = model.top().best(rows, 5)
        why = strongest(model, rows, best)
        assert (why.kinds[:, 0] == kind).mean() > 0.8
        assert (why.causes[why.kinds == kind] == -1).all()
        if kind == RISING:
            assert (best.items[:, 0] == 7).mean() > 0.5


def test_a_seen_item_can_be_explained(fitted):
    model, X = fitted
    seen = X[[0]].indices[:2].astype(np.int64)
    expected = model.scores(X[[0]])[0, seen]
    np.testing.assert_allclose(
        explain_row(model, model.histories(X[[0]]), seen).best.scores[0], expected, rtol=1e-3
    )


def test_similar_items_are_symmetric(fitted):
    model, _ = fitted
    table = np.stack([model.similar(item) for item in range(120)])
    np.testing.assert_allclose(table, table.T, rtol=1e-4, atol=1e-7)
    assert np.isfinite(table).all()
    assert table.max() > 0
