"""Lists are the best of the whole catalogue, for many users and for one at a time."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.exact_top import ExactTop
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import ComponentsScore
from mom_pipeline_tests.core.ranking.brute_force import brute_force


def lists(X, P, O, n, **options):
    """The lists by components. P: (N, K).  O: (D, K)."""
    top = ExactTop(ComponentsScore(O), np.ones(len(O), dtype=bool))
    best = top.best(Histories(X, partial(memberships_of, X, P)), n, **options)
    return best.items, best.scores


def memberships_of(X, P, rows):
    """P of some rows of X: of users without a history those of the first ones."""
    return P[: rows.shape[0]]


def test_a_list_of_no_items_is_refused():
    with pytest.raises(InvalidSetting, match="at least 1"):
        lists(sparse.csr_array((2, 10)), np.ones((2, 2)), np.full((10, 2), 0.1), 0)


def test_the_share_done_rises_to_one(data):
    shares = []
    model = MethodOfMoments(4).fit(data).fitted
    model.best(data, 10, progress=shares.append)
    assert max(shares) == 1


def test_an_item_that_no_component_of_the_user_can_bring_is_not_listed(rng):
    O = rng.dirichlet(np.ones(90), 3).T
    brings = np.arange(90)[:, None] % 18 == np.arange(3)
    X, P = sparse.csr_array((6, 90)), np.eye(3)[np.arange(6) % 3]
    ids, scores = lists(X, P, O * brings, 7)
    for user, items in enumerate(ids):
        np.testing.assert_array_equal(np.sort(items[:5]), np.flatnonzero(brings[:, user % 3]))
    np.testing.assert_array_equal(ids[:, 5:], -1)
    np.testing.assert_array_equal(scores[:, 5:], 0)


def test_equal_items_and_short_lists():
    O, half = np.full((10, 2), 0.1, dtype=np.float32), np.array([[0.5, 0.5]], dtype=np.float32)
    hidden = np.zeros((1, 10))
    hidden[0, [0, 2]] = 1
    np.testing.assert_array_equal(lists(sparse.csr_array(hidden), half, O, 3)[0], [[1, 3, 4]])
    hidden[0, :9] = 1
    np.testing.assert_array_equal(lists(sparse.csr_array(hidden), half, O, 3)[0], [[9, -1, -1]])


@pytest.fixture(scope="module")
def data():
    return simulate(300, 120, 4, items_per_user=8, seed=0)[1]


@pytest.fixture(scope="module", params=["product", "tempered", "em", "three-moment"])
def fitted(request, data):
    rule = request.param if request.param in ("product", "tempered", "em") else "em"
    ranking = "components" if request.param == rule else "three-moment"
    how = {"personalization": rule, "ranking": ranking}
    return MethodOfMoments(4, **how).fit(data).fitted


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_of_a_model_are_those_of_its_score(fitted, data, exclude_seen):
    scorer = partial(fitted.scores, exclude_seen=exclude_seen)
    ids, scores = brute_force(data[:40], scorer, 10, exclude_seen=exclude_seen)
    best = fitted.best(data[:40], 10, exclude_seen=exclude_seen)
    np.testing.assert_allclose(best.scores, scores, rtol=1e-5)
    np.testing.assert_array_equal(best.items, ids)
    _, values = fitted.top().score(fitted.histories(data[:40]), exclude_seen=exclude_seen)
    assert best.values.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_allclose(best.values[name], value, rtol=1e-5)


def test_memberships_of_one_user_are_a_row_of_those_of_many(fitted, data):
    P = fitted.memberships(data)
    for user in range(40):
        own = fitted.memberships(data[[user]])
        np.testing.assert_allclose(own[0], P[user], rtol=1e-4, atol=1e-9)
    nothing = sparse.csr_array((1, data.shape[1]))
    np.testing.assert_allclose(fitted.memberships(nothing)[0], fitted.weights, rtol=1e-5)


def test_an_item_that_nobody_has_taken_is_no_candidate(fitted, data):
    popularity = fitted.popularity.copy()
    listed = fitted.best(data[:40], 10).items
    popularity[listed[:, 0]] = 0
    best = replace(fitted, popularity=popularity).best(data[:40], 10)
    assert not np.isin(best.items, listed[:, 0]).any()
    assert (best.items[:, 0] >= 0).all()
