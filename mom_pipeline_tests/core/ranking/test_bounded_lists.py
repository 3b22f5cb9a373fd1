"""Lists of everybody by bounds are those of the whole catalogue.

Sums in another order differ by rounding, so two items may change places, or one take the place
of the other at the end of the list, where their scores differ by 1e-6 of themselves at most.
Where all sums are exact, the lists must be equal to the letter.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking import bounded_lists
from mom_pipeline.core.ranking.bounded_lists import BoundedLists
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.ranking.topn import class_scores, recommend_top

NEAR = 1e-6


@pytest.fixture(autouse=True)
def small_shelves(monkeypatch):
    """Several shelves and blocks on small catalogues too."""
    monkeypatch.setattr(bounded_lists, "_ITEMS_PER_REACHING", 0)
    monkeypatch.setattr(bounded_lists, "_FIRST_ITEMS", 8)
    monkeypatch.setattr(bounded_lists, "_FIRST_ITEMS_PER_PLACE", 1)
    monkeypatch.setattr(bounded_lists, "_SCORES_IN_CACHE", 600)
    monkeypatch.setattr(bounded_lists, "_FEWEST_USERS", 3)


def draw(n_users, n_items, n_components, rng, *, skew=1.0, dtype=np.float64):
    """Histories, memberships and classes; items fall in popularity as rank^-skew."""
    popularity = rng.permutation(np.arange(1, n_items + 1) ** -skew)
    O = rng.gamma(0.5, size=(n_items, n_components)) * popularity[:, None] + 1e-12
    P = rng.dirichlet(np.full(n_components, 0.3), size=n_users)
    X = sparse.csr_array((rng.random((n_users, n_items)) < 0.1).astype(float))
    return X, P.astype(dtype), (O / O.sum(axis=0)).astype(dtype)


def brute_force(X, P, O, n, exclude_seen=True):
    """All scores of all users at once, ranked by `recommend_top`, and the scores themselves."""
    all_scores = class_scores(P, O)
    assert len(P) <= 1024  # one block of `recommend_top`
    ids, scores = recommend_top(X, lambda rows: all_scores.copy(), n, exclude_seen=exclude_seen)
    return ids, scores, all_scores


def assert_same_lists(found, X, P, O, n, exclude_seen=True):
    ids, scores = found
    expected, expected_scores, all_scores = brute_force(X, P, O, n, exclude_seen)
    np.testing.assert_array_equal(ids < 0, expected < 0)
    np.testing.assert_allclose(scores, expected_scores, rtol=NEAR)
    users, places = np.nonzero(ids != expected)
    swapped = all_scores[users, ids[users, places]]
    np.testing.assert_allclose(swapped, expected_scores[users, places], rtol=NEAR)
    for user, items in enumerate(ids):
        listed = items[items >= 0]
        assert len(set(listed)) == len(listed)
        if exclude_seen:
            assert not set(listed) & set(X[[user]].indices)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 120),
    st.integers(1, 6),
    st.integers(1, 30),
    st.sampled_from([0.0, 0.7, 2.0]),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_lists_are_those_of_the_whole_catalogue(N, D, K, n, skew, dtype, exclude_seen, seed):
    X, P, O = draw(N, D, K, np.random.default_rng(seed), skew=skew, dtype=dtype)
    found = BoundedLists.of(O).best(X, P, n, exclude_seen=exclude_seen)
    assert found[0].dtype == np.int32
    assert found[1].dtype == dtype
    assert_same_lists(found, X, P, O, n, exclude_seen)


@pytest.mark.parametrize("rule", ["product", "tempered", "em"])
def test_any_rule_of_personalization(rule, rng):
    X, _, O = draw(200, 400, 5, rng, dtype=np.float32)
    popularity = np.asarray(X.sum(axis=0)).ravel()
    P = memberships(X, smoothed(O, popularity, 0.05), np.full(5, 0.2), Personalization(rule))
    assert_same_lists(BoundedLists.of(O).best(X, P, 10), X, P, O, 10)


@pytest.fixture
def exact_shelves(monkeypatch):
    """Nobody reads an item more than the bounds ask for."""
    monkeypatch.setattr(bounded_lists, "_GROWTH", 0)
    monkeypatch.setattr(bounded_lists, "_SHELVES_AHEAD", 10_000)


def test_nothing_is_missed_when_nothing_is_read_in_reserve(exact_shelves, rng):
    X, P, O = draw(300, 1_000, 4, rng)
    assert_same_lists(BoundedLists.of(O).best(X, P, 10), X, P, O, 10)


def test_ties_go_to_the_lower_position(exact_shelves, rng):
    """Quarters and small whole numbers: every sum is exact, so lists agree to the letter."""
    O = rng.integers(0, 8, size=(2_000, 4)) * (rng.random((2_000, 1)) < 0.1) / 4096
    P = np.array([[1, 1, 1, 1], [2, 2, 0, 0], [4, 0, 0, 0], [0, 0, 1, 3]]) / 4
    X = sparse.csr_array((rng.random((4, 2_000)) < 0.2).astype(float))
    ids, scores = BoundedLists.of(O).best(X, P, 40)
    expected, expected_scores, _ = brute_force(X, P, O, 40)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(scores, expected_scores)


def test_a_tie_with_the_lowest_bound_is_read(exact_shelves):
    """Of 100 items with the same score the first has the lowest bound, which is that score."""
    O = np.zeros((500, 2))
    O[:100] = 2.0**-8 + np.outer(np.arange(100), [1, -1]) * 2.0**-16
    X = sparse.csr_array((1, 500))
    ids, _ = BoundedLists.of(O).best(X, np.array([[0.5, 0.5]]), 9)
    np.testing.assert_array_equal(ids, [np.arange(9)])


def test_who_has_seen_nothing_or_nearly_everything(rng):
    _, P, O = draw(3, 150, 4, rng)
    seen = np.ones((3, 150))
    seen[0] = 0
    seen[1, [3, 77, 149]] = 0
    X = sparse.csr_array(seen)
    ids, scores = BoundedLists.of(O).best(X, P, 10)
    assert_same_lists((ids, scores), X, P, O, 10)
    assert set(ids[1, :3]) == {3, 77, 149}
    np.testing.assert_array_equal(ids[1, 3:], -1)
    np.testing.assert_array_equal(ids[2], -1)
    np.testing.assert_array_equal(scores[2], 0)


def test_no_user_and_no_candidate(rng):
    X, P, O = draw(4, 60, 3, rng)
    ids, _ = BoundedLists.of(O).best(X[:0], P[:0], 5)
    assert ids.shape == (0, 5)
    ids, scores = BoundedLists.of(O, np.zeros(60, dtype=bool)).best(X, P, 5)
    np.testing.assert_array_equal(ids, -1)
    np.testing.assert_array_equal(scores, 0)


def test_only_candidates_are_listed(rng):
    X, P, O = draw(50, 300, 4, rng)
    candidates = rng.random(300) < 0.5
    hidden = sparse.csr_array(X.toarray() + ~candidates)
    found = BoundedLists.of(O, candidates).best(X, P, 12)
    assert_same_lists(found, hidden, P, O, 12)


def items_read(monkeypatch, X, P, O, n):
    """Scores computed in all, as a share of users times items."""
    read = []
    best = bounded_lists._Shelf.best

    def counted(shelf, P, X, n):
        read.append(len(P) * len(shelf.items))
        return best(shelf, P, X, n)

    monkeypatch.setattr(bounded_lists._Shelf, "best", counted)
    BoundedLists.of(O).best(X, P, n)
    return sum(read) / (len(P) * len(O))


def test_a_skewed_catalogue_is_hardly_read(monkeypatch, rng):
    X, P, O = draw(60, 3_000, 4, rng, skew=1.2)
    assert items_read(monkeypatch, X, P, O, 10) < 0.1


def test_a_flat_catalogue_is_hardly_read_twice(monkeypatch, rng):
    X, P, _ = draw(60, 2_000, 4, rng)
    O = np.full((2_000, 4), 1 / 2_000)
    assert items_read(monkeypatch, X, P, O, 10) < 1.4


def test_a_small_catalogue_is_read_at_once(monkeypatch, rng):
    monkeypatch.setattr(bounded_lists, "_ITEMS_PER_REACHING", 4)
    X, P, O = draw(60, 150, 4, rng, skew=1.2)
    assert items_read(monkeypatch, X, P, O, 10) == 1


def test_memory_is_bounded_by_small_blocks(monkeypatch, rng):
    X, P, O = draw(60, 500, 4, rng)
    monkeypatch.setattr(bounded_lists, "_SCORES_IN_MEMORY", 1_000)
    blocks = bounded_lists._blocks(np.arange(60), 500)
    assert [len(users) for users in blocks] == [2] * 30
    assert_same_lists(BoundedLists.of(O).best(X, P, 10), X, P, O, 10)


def test_the_share_done_rises_to_one(rng):
    X, P, O = draw(60, 2_000, 4, rng)
    shares = []
    BoundedLists.of(O).best(X, P, 10, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_list_of_no_items_is_refused(rng):
    X, P, O = draw(2, 10, 2, rng)
    with pytest.raises(InvalidSetting, match="at least 1"):
        BoundedLists.of(O).best(X, P, 0)
