"""Rows that are stored as a change of earlier ones come back as they were."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from mom_pipeline.artifacts.dated_rows import DatedRows


def rows_of(counts, days) -> DatedRows:
    X = csr_array(np.array(counts, dtype=float))
    days = np.array(days)[X.nonzero()]
    return DatedRows(X, csr_array((days, X.indices, X.indptr), shape=X.shape))


@pytest.fixture
def before() -> DatedRows:
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.7, (40, 6))
    return rows_of(counts, 100 + np.zeros_like(counts))


def assert_same(ours: DatedRows, theirs: DatedRows) -> None:
    for one, two in ((ours.interactions, theirs.interactions), (ours.last_days, theirs.last_days)):
        assert one.shape == two.shape
        np.testing.assert_array_equal(one.toarray(), two.toarray())
        np.testing.assert_array_equal(one.indices, two.indices)
        np.testing.assert_array_equal(one.indptr, two.indptr)


def test_new_users_new_items_a_row_that_went_and_a_later_day(before):
    counts = np.zeros((42, 8))
    counts[:40, :6] = before.interactions.toarray()
    days = np.where(counts > 0, 100, 0)
    counts[3] = 0
    counts[5, 7], days[5, 7] = 2, 101
    counts[41, 0], days[41, 0] = 1, 101
    days[9, np.flatnonzero(counts[9])[0]] = 101  # the same counts, taken again
    now = rows_of(counts, days)
    change = now.since(before)
    assert change["users"].tolist() == [3, 5, 9, 41]
    assert change["interactions"].shape == (4, 8)
    assert_same(before.with_change(change), now)


def test_a_change_lies_in_the_arrays_that_were_made_for_it(before, monkeypatch):
    monkeypatch.setattr("mom_pipeline.core.interactions._PAIRS_PER_BLOCK", 3)
    counts = before.interactions.toarray()
    counts[5:9] += 1
    now, made = rows_of(counts, 100 + np.zeros_like(counts)), []

    def empty(shape, dtype):
        made.append(np.empty(shape, dtype))
        return made[-1]

    change = now.since(before, empty)
    X = change["interactions"]
    for array in (X.data, X.indices, change["last_days"]):
        assert any(np.shares_memory(array, own) for own in made)
    assert change["users"].tolist() == [5, 6, 7, 8]
    assert_same(before.with_change(change, empty), now)


def test_nothing_new_is_an_empty_change(before):
    change = before.since(before)
    assert len(change["users"]) == 0
    assert_same(before.with_change(change), before)


def test_many_rows_are_no_change(before):
    counts = before.interactions.toarray()
    counts[:15] += 1
    assert rows_of(counts, 100 + np.zeros_like(counts)).since(before) is None


def test_positions_that_were_given_anew_are_no_change(before):
    counts = before.interactions.toarray()[:-1]
    assert rows_of(counts, 100 + np.zeros_like(counts)).since(before) is None
