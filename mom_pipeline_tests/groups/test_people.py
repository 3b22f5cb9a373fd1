"""Who is in a group on which day."""

from datetime import date

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.groups.people import (
    NOBODY,
    by_day,
    people_by_week,
    share_interval,
    sizes,
    strongest_groups,
    supported,
)


def test_days_are_counted_of_the_last_two_months():
    days = np.array([3, 3, 4, 10, 11, 11, 1])
    found, counts = by_day(days, np.array([0, 1, 1, 0, 1, 1, 0]), 2)
    assert (found[0], found[-1]) == (date(1970, 1, 1), date(1970, 1, 11))
    assert counts.tolist()[2] == [1, 1]
    assert counts.sum() == len(days)
    assert len(by_day(np.array([1, 400]), np.array([0, 0]), 1)[0]) == 60
    assert by_day(np.zeros(0), np.zeros(0, dtype=int), 2)[1].sum() == 0


def test_a_person_counts_once_in_the_week_up_to_a_day():
    rng = np.random.default_rng(0)
    N, K = 50, 3
    X = sparse.random_array((N, 20), density=0.2, rng=rng, format="csr", dtype=np.float64)
    X.data = rng.integers(100, 200, len(X.data)).astype(np.uint32)
    group_of = rng.integers(0, K, N)
    days, counts = people_by_week(X, group_of, K)
    newest = int(X.data.max())
    assert len(days) == 60
    for place in (0, 30, 59):
        day = newest - 59 + place
        active = [
            u
            for u in range(N)
            if any(day - 7 < d <= day for d in X.data[X.indptr[u] : X.indptr[u + 1]])
        ]
        assert counts[place].tolist() == np.bincount(group_of[active], minlength=K).tolist()


def test_who_has_no_history_is_in_no_group():
    P = np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    known = np.array([True, True, False])
    group_of = strongest_groups(P, known, np.arange(2))
    assert group_of.tolist() == [1, 0, NOBODY]
    assert sizes(group_of, 2).tolist() == [1, 1]
    # A group that the data does not support has nobody.
    assert strongest_groups(P, known, np.array([1])).tolist() == [1, 1, NOBODY]


def test_groups_that_halves_of_the_people_do_not_agree_on_are_not_shown():
    assert supported((0.9, 0.2, 0.5), 3).tolist() == [0, 2]
    assert supported((), 3).tolist() == [0, 1, 2]
    assert supported((0.1, 0.2), 2).tolist() == [0, 1]
    agreement = (0.7, 0.55, 0.45, 0.99)
    assert supported(agreement, 4, 0.4).tolist() == [0, 1, 3]  # of little use, if above chance
    assert supported(agreement, 4, 0.6).tolist() == [0, 3]  # better than by chance
    assert supported(agreement, 4, 0.5, 3).tolist() == [0, 1, 3]  # as many as are supported
    assert supported(agreement, 4, 0.5, 0).tolist() == [0, 1, 2, 3]


def test_an_interval_covers_the_share_and_narrows():
    for k, n in ((0, 10), (5, 10), (500, 1_000), (10, 10)):
        low, high = share_interval(np.array([k]), n)
        assert 0 <= low[0] <= k / n + 1e-12
        assert k / n - 1e-12 <= high[0] <= 1
    few, many = share_interval(np.array([5]), 10), share_interval(np.array([500]), 1_000)
    assert many[1] - many[0] < (few[1] - few[0]) / 5
    low, high = share_interval(np.array([0]), 0)
    assert (low[0], high[0]) == pytest.approx((0, 1))
