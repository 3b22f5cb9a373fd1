import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking import topn as prediction
from mom_pipeline.core.ranking.topn import BestItems, lists_by_popularity, top_n, user_blocks
from mom_pipeline_tests.core.ranking.brute_force import brute_force


def sorted_reference(scores, n):
    """Positions by falling score, ties by position, -inf left out."""
    lists = []
    for row in scores:
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))[:n]
        kept = [i for i in order if row[i] > -np.inf]
        lists.append(kept + [-1] * (min(n, len(row)) - len(kept)))
    return np.array(lists)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 9), st.integers(1, 25), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_top_n_equals_sorting_with_ties_by_position(rows, columns, n, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=(rows, columns)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    ids, values = top_n(scores, n)
    np.testing.assert_array_equal(ids, sorted_reference(scores, n))
    expected = np.where(ids < 0, 0.0, np.take_along_axis(scores, np.maximum(ids, 0), axis=1))
    np.testing.assert_array_equal(values, expected)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 9),
    st.integers(1, 25),
    st.integers(1, 30),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_lists_by_popularity_equal_those_of_the_whole_catalogue(users, items, n, seen, seed):
    rng = np.random.default_rng(seed)
    X = sparse.csr_array((rng.random((users, items)) < rng.random()).astype(float))
    popularity = rng.integers(0, 5, items).astype(float)
    popularity[rng.random(items) < 0.2] = -np.inf
    expected, _ = brute_force(
        X, lambda rows: np.tile(popularity, (rows.shape[0], 1)), n, exclude_seen=seen
    )
    lists = lists_by_popularity(popularity, X, n, exclude_seen=seen)
    np.testing.assert_array_equal(lists, expected)


def test_memory_is_bounded_by_small_blocks(monkeypatch):
    monkeypatch.setattr(prediction, "_SCORES_IN_MEMORY", 30 * 6)
    sizes = [block.stop - block.start for block in user_blocks(50, 30)]
    assert max(sizes) <= 6
    assert sum(sizes) == 50


def test_a_list_of_no_items_is_refused():
    with pytest.raises(InvalidSetting, match="at least 1"):
        BestItems.empty(1, 0)
