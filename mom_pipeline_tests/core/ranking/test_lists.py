"""Lists with reasons: each against a brute-force look at what spoke for the item."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import RankingWeights, simulate
from mom_pipeline.core.fitted import FittedModel, PairRanking
from mom_pipeline.core.ranking.lists import reasoned_lists
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.reasons import COMPONENT, ITEM, POPULAR, strongest
from mom_pipeline.core.ranking.score import CLASSES


@pytest.fixture(scope="module")
def world():
    truth, X = simulate(120, 40, 3, items_per_user=6, seed=5)
    X = sparse.lil_array(X.astype(float))
    X[7] = 0
    X[:, 5] = 0  # nobody has taken it
    X = sparse.csr_array(X)
    events = np.asarray(X.sum(axis=0)).ravel()
    model = FittedModel(
        truth.item_probs,
        truth.weights,
        events / events.sum(),
        np.empty((40, 0)),
        Personalization("em"),
        None,
        {},
    )
    return model, X


@pytest.fixture(scope="module")
def three_moment(world):
    model, X = world
    low_pass = LowPass.of(
        X, 4, np.random.default_rng(0), dtype=np.float64, tol=1e-6, max_passes=50, user_exponent=0.5
    )
    return replace(model, pair_ranking=PairRanking(X, low_pass, RankingWeights()))


def test_the_class_that_contributed_most_is_the_reason(world):
    model, X = world
    P = model.memberships(X)
    lists = reasoned_lists(X, P, model, 5)
    for user in (0, 3, 99):
        for place, item in enumerate(lists.items[user]):
            assert lists.kinds[user, place] == COMPONENT
            assert lists.causes[user, place] == np.argmax(P[user] * model.item_probs[item])
    assert len(np.unique(lists.causes)) > 2


def test_the_item_of_the_history_that_contributed_most_is_the_reason(world, three_moment):
    """What an item adds: scores are sums over the history, so those of it alone, scaled alike."""
    model, (_, X) = three_moment, world
    lists = reasoned_lists(X, model.memberships(X), model, 5)
    ranking, w = model.pair_ranking, RankingWeights()
    alone = sparse.csr_array(np.eye(40))
    pairs = ranking.pairs.scores(alone, w.history_exponent, w.candidate_exponent)
    low_pass = ranking.low_pass.scores(alone, w.low_pass_ridge)
    by_pairs_alone = []
    for user in (0, 3, 99):
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        unseen = np.setdiff1d(np.arange(40), history)
        terms = w.pairs * pairs[history] / pairs[history].sum(axis=0)[unseen].max()
        terms += w.low_pass * low_pass[history] / low_pass[history].sum(axis=0)[unseen].max()
        for place, item in enumerate(lists.items[user]):
            assert lists.kinds[user, place] == ITEM
            assert lists.causes[user, place] == history[np.argmax(terms[:, item])]
            by_pairs_alone.append(history[np.argmax(pairs[history, item])])
    assert by_pairs_alone != lists.causes[[0, 3, 99]].ravel().tolist()


def test_blocks_do_not_change_the_reasons(world, three_moment, monkeypatch):
    _, X = world
    whole = reasoned_lists(X, three_moment.memberships(X), three_moment, 5)
    monkeypatch.setattr("mom_pipeline.core.ranking.reasons._USERS_PER_BLOCK", 7)
    blocks = reasoned_lists(X, three_moment.memberships(X), three_moment, 5)
    np.testing.assert_array_equal(blocks.causes, whole.causes)
    np.testing.assert_array_equal(blocks.kinds, whole.kinds)


@pytest.mark.parametrize("ranking", ["classes", "three-moment"])
def test_without_a_history_popular_items_and_marked_as_such(world, three_moment, ranking):
    model, X = world
    model = model if ranking == "classes" else three_moment
    lists = reasoned_lists(X, model.memberships(X), model, 5)
    expected = np.argsort(-model.popularity, kind="stable")[:5]
    np.testing.assert_array_equal(lists.items[7], expected)
    np.testing.assert_allclose(lists.scores[7], model.popularity[expected])
    assert (lists.kinds[7] == POPULAR).all()


@pytest.mark.parametrize("ranking", ["classes", "three-moment"])
def test_lists_are_short_and_not_padded(world, three_moment, ranking):
    model, X = world
    item_probs = model.item_probs.copy()
    item_probs[5] = 0
    model = replace(model if ranking == "classes" else three_moment, item_probs=item_probs)
    lists = reasoned_lists(X, model.memberships(X), model, 60)
    for user in range(X.shape[0]):
        found = lists.items[user][lists.items[user] >= 0]
        history = X.indices[X.indptr[user] : X.indptr[user + 1]]
        assert set(found) == set(np.flatnonzero(model.popularity)) - set(history)
        assert len(found) == len(set(found)) < 40 - len(history)
        assert (lists.items[user][len(found) :] == -1).all()


def test_seen_items_stay_when_they_are_asked_for(world):
    model, X = world
    P = model.memberships(X)
    lists = reasoned_lists(X, P, model, 40, exclude_seen=False)
    history = X.indices[X.indptr[0] : X.indptr[1]]
    assert set(history) <= set(lists.items[0])


def test_no_reason_where_no_class_has_the_item():
    P, O = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    half = np.array([0.5, 0.5])
    model = FittedModel(O, half, half, np.empty((2, 0)), Personalization(), None, {})
    why = strongest(
        model, sparse.csr_array((1, 2)), P, np.array([[0, 1, -1]]), {CLASSES: np.ones(1)}
    )
    np.testing.assert_array_equal(why.kinds, [[POPULAR, COMPONENT, POPULAR]])
    np.testing.assert_array_equal(why.causes, [[-1, 0, -1]])
