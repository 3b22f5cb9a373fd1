"""Lists by bounds are those of the whole catalogue, for many users and for one at a time.

Sums in another order differ by rounding, so two items may change places, or one take the place
of the other at the end of the list, where their scores differ by 1e-6 of themselves at most.
Where all sums are exact, the lists must be equal to the letter.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking import bounded
from mom_pipeline.core.ranking.bounded import BoundedComponents
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.ranking.topn import BestItems, brute_force, top_n

NEAR = 1e-6


@pytest.fixture(autouse=True, params=["tiers", "one by one"])
def both_ways(request, monkeypatch):
    """Many users and few; several tiers and blocks on small catalogues too."""
    monkeypatch.setattr(bounded, "_FEW_USERS", 0 if request.param == "tiers" else 10**6)
    monkeypatch.setattr(bounded, "_FIRST_ITEMS_OF_ONE", 8)
    monkeypatch.setattr(bounded, "_ITEMS_PER_REACHING", 0)
    monkeypatch.setattr(bounded, "_FIRST_ITEMS", 8)
    monkeypatch.setattr(bounded, "_FIRST_ITEMS_PER_POSITION", 1)
    monkeypatch.setattr(bounded, "_SCORES_IN_CACHE", 600)
    monkeypatch.setattr(bounded, "_FEWEST_USERS", 3)


def lists(X, P, O, n, *, exclude_seen=True, candidates=None, **options):
    best = BestItems.empty(X.shape[0], n)
    hidden = X if exclude_seen else None
    BoundedComponents.from_probs(O, candidates).fill(best, P, hidden, **options)
    return best.items, best.scores


def draw(n_users, n_items, n_components, rng, *, skew=1.0, dtype=np.float64):
    """Histories, memberships and classes; items fall in popularity as rank^-skew."""
    popularity = rng.permutation(np.arange(1, n_items + 1) ** -skew)
    O = rng.gamma(0.5, size=(n_items, n_components)) * popularity[:, None] + 1e-12
    P = rng.dirichlet(np.full(n_components, 0.3), size=n_users)
    X = sparse.csr_array((rng.random((n_users, n_items)) < 0.1).astype(float))
    return X, P.astype(dtype), (O / O.sum(axis=0)).astype(dtype)


def whole_catalogue(X, P, O, n, exclude_seen=True):
    """All scores of all users at once, ranked by `brute_force`, and the scores themselves."""
    all_scores = P @ O.T
    assert len(P) <= 1024  # one block
    ids, scores = brute_force(X, lambda rows: all_scores.copy(), n, exclude_seen=exclude_seen)
    return ids, scores, all_scores


def assert_same_lists(result, X, P, O, n, exclude_seen=True):
    ids, scores = result
    expected, expected_scores, all_scores = whole_catalogue(X, P, O, n, exclude_seen)
    np.testing.assert_array_equal(ids < 0, expected < 0)
    np.testing.assert_allclose(scores, expected_scores, rtol=NEAR)
    users, positions = np.nonzero(ids != expected)
    swapped = all_scores[users, ids[users, positions]]
    np.testing.assert_allclose(swapped, expected_scores[users, positions], rtol=NEAR)
    for user, items in enumerate(ids):
        listed = items[items >= 0]
        assert len(set(listed)) == len(listed)
        if exclude_seen:
            assert not set(listed) & set(X[[user]].indices)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.integers(1, 40),
    st.integers(1, 120),
    st.integers(1, 6),
    st.integers(1, 30),
    st.tuples(st.sampled_from([0.0, 0.7, 2.0]), st.sampled_from([np.float32, np.float64])),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_lists_are_those_of_the_whole_catalogue(N, D, K, n, numbers, exclude_seen, seed):
    skew, dtype = numbers
    X, P, O = draw(N, D, K, np.random.default_rng(seed), skew=skew, dtype=dtype)
    result = lists(X, P, O, n, exclude_seen=exclude_seen)
    assert result[0].dtype == np.int64
    assert_same_lists(result, X, P, O, n, exclude_seen)


@pytest.mark.parametrize("rule", ["product", "tempered", "em"])
def test_any_rule_of_personalization(rule, rng):
    X, _, O = draw(200, 400, 5, rng, dtype=np.float32)
    popularity = np.asarray(X.sum(axis=0)).ravel()
    P = memberships(X, smoothed(O, popularity, 0.05), np.full(5, 0.2), Personalization(rule))
    assert_same_lists(lists(X, P, O, 10), X, P, O, 10)


@pytest.fixture
def exact_tiers(monkeypatch):
    """Nobody reads an item more than the bounds ask for."""
    monkeypatch.setattr(bounded, "_GROWTH", 0)
    monkeypatch.setattr(bounded, "_TIERS_AHEAD", 10_000)


def test_nothing_is_missed_when_nothing_is_read_in_reserve(exact_tiers, rng):
    X, P, O = draw(300, 1_000, 4, rng)
    assert_same_lists(lists(X, P, O, 10), X, P, O, 10)


def test_ties_go_to_the_lower_position(exact_tiers, rng):
    """Quarters and small whole numbers: every sum is exact, so lists agree to the letter."""
    O = rng.integers(0, 8, size=(2_000, 4)) * (rng.random((2_000, 1)) < 0.1) / 4096
    P = np.array([[1, 1, 1, 1], [2, 2, 0, 0], [4, 0, 0, 0], [0, 0, 1, 3]]) / 4
    X = sparse.csr_array((rng.random((4, 2_000)) < 0.2).astype(float))
    ids, scores = lists(X, P, O, 40)
    expected, expected_scores, _ = whole_catalogue(X, P, O, 40)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(scores, expected_scores)


def test_a_tie_with_the_lowest_bound_is_read(exact_tiers):
    """Of 100 items with the same score the first has the lowest bound, which is that score."""
    O = np.zeros((500, 2))
    O[:100] = 2.0**-8 + np.outer(np.arange(100), [1, -1]) * 2.0**-16
    X = sparse.csr_array((1, 500))
    ids, _ = lists(X, np.array([[0.5, 0.5]]), O, 9)
    np.testing.assert_array_equal(ids, [np.arange(9)])


def test_who_has_seen_nothing_or_nearly_everything(rng):
    _, P, O = draw(3, 150, 4, rng)
    seen = np.ones((3, 150))
    seen[0] = 0
    seen[1, [3, 77, 149]] = 0
    X = sparse.csr_array(seen)
    ids, scores = lists(X, P, O, 10)
    assert_same_lists((ids, scores), X, P, O, 10)
    assert set(ids[1, :3]) == {3, 77, 149}
    np.testing.assert_array_equal(ids[1, 3:], -1)
    np.testing.assert_array_equal(ids[2], -1)
    np.testing.assert_array_equal(scores[2], 0)


def test_no_user_and_no_candidate(rng):
    X, P, O = draw(4, 60, 3, rng)
    ids, _ = lists(X[:0], P[:0], O, 5)
    assert ids.shape == (0, 5)
    ids, scores = lists(X, P, O, 5, candidates=np.zeros(60, dtype=bool))
    np.testing.assert_array_equal(ids, -1)
    np.testing.assert_array_equal(scores, 0)


def test_only_candidates_are_listed(rng):
    X, P, O = draw(50, 300, 4, rng)
    candidates = rng.random(300) < 0.5
    hidden = sparse.csr_array(X.toarray() + ~candidates)
    result = lists(X, P, O, 12, candidates=candidates)
    assert_same_lists(result, hidden, P, O, 12)


def items_read(monkeypatch, X, P, O, n):
    """Scores computed in all, as a share of users times items."""
    read = []
    best = bounded._Tier.best

    def counted(tier, P, X, n):
        read.append(len(P) * len(tier.items))
        return best(tier, P, X, n)

    monkeypatch.setattr(bounded, "_FEW_USERS", 0)
    monkeypatch.setattr(bounded._Tier, "best", counted)
    lists(X, P, O, n)
    return sum(read) / (len(P) * len(O))


def test_a_skewed_catalogue_is_hardly_read(monkeypatch, rng):
    X, P, O = draw(60, 3_000, 4, rng, skew=1.2)
    assert items_read(monkeypatch, X, P, O, 10) < 0.1


def test_a_flat_catalogue_is_hardly_read_twice(monkeypatch, rng):
    X, P, _ = draw(60, 2_000, 4, rng)
    O = np.full((2_000, 4), 1 / 2_000)
    assert items_read(monkeypatch, X, P, O, 10) < 1.4


def test_a_small_catalogue_is_read_at_once(monkeypatch, rng):
    monkeypatch.setattr(bounded, "_ITEMS_PER_REACHING", 4)
    X, P, O = draw(60, 150, 4, rng, skew=1.2)
    assert items_read(monkeypatch, X, P, O, 10) == 1


def test_memory_is_bounded_by_small_blocks(monkeypatch, rng):
    X, P, O = draw(60, 500, 4, rng)
    monkeypatch.setattr(bounded, "_SCORES_IN_MEMORY", 1_000)
    blocks = bounded._blocks(np.arange(60), 500)
    assert [len(users) for users in blocks] == [2] * 30
    assert_same_lists(lists(X, P, O, 10), X, P, O, 10)


def test_the_share_done_rises_to_one(rng, monkeypatch):
    monkeypatch.setattr(bounded, "_FEW_USERS", 0)
    X, P, O = draw(60, 2_000, 4, rng)
    shares = []
    lists(X, P, O, 10, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_list_of_no_items_is_refused(rng):
    X, P, O = draw(2, 10, 2, rng)
    with pytest.raises(InvalidSetting, match="at least 1"):
        lists(X, P, O, 0)


def test_an_item_that_no_component_of_the_user_can_bring_is_not_listed(rng):
    _, _, O = draw(6, 90, 3, rng)
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


def assert_best_of_all(O, P, n, hidden, rounding):
    """The list is that of all items; of n places the share `rounding` may be near-ties."""
    scores = O @ P
    scores[hidden] = -np.inf
    expected, values = top_n(scores[None], n)
    row = np.zeros((1, len(O)))
    row[0, hidden] = 1
    items, own = lists(sparse.csr_array(row), P[None], O, n)
    np.testing.assert_allclose(own[0], values[0], rtol=1e-5)
    assert len(np.setdiff1d(items[0], expected[0])) <= rounding * n


@pytest.mark.parametrize("concentration", [0.02, 1.0, 50.0])
def test_the_bound_loses_nothing(concentration):
    rng = np.random.default_rng(0)
    O = rng.gamma(concentration, size=(9000, 6)).astype(np.float32)
    O[rng.random(O.shape) < 0.3] = 0
    O /= O.sum(axis=0)
    for n in (1, 20, 700):
        P = rng.dirichlet(np.full(6, 0.3)).astype(np.float32)
        assert_best_of_all(O, P, n, rng.choice(9000, 50, replace=False), rounding=0.01)


@pytest.mark.parametrize("spread", [0.02, 0.3, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_that_are_not_read_lose_nothing(spread, dtype):
    """Items all alike in popularity, users of few components and of all of them."""
    rng = np.random.default_rng(1)
    O = rng.gamma(0.3, size=(30_000, 50)).astype(dtype)
    O /= O.sum(axis=0)
    for n in (1, 20, 3000):
        P = rng.dirichlet(np.full(50, spread)).astype(dtype)
        assert_best_of_all(O, P, n, rng.choice(30_000, 50, replace=False), rounding=0.001)


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
