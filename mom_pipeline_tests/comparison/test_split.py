import gzip
from datetime import date, timedelta

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.results import ComparisonError
from mom_pipeline.comparison.split import (
    make_trial,
    split_by_days,
    split_by_time,
    split_of_files,
    validation_start,
)
from mom_pipeline.errors import DatasetError, WarehouseUnreadable
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline_tests.comparison.conftest import FIRST


def day(number):
    return FIRST + timedelta(days=number - 1)


# Four training days, two test days.
DAYS = (
    ["ann a", "bob a", "bob b"],
    ["ann b", "cat a"],
    ["cat b", "dan a", "dan c"],
    ["ann c", "bob c"],
    ["ann a", "ann d", "eve a"],
    ["bob a", "cat c"],
)


def test_by_time(deliver):
    split = split_by_time(deliver(*DAYS, min_item_users=2), day(4), name="toy")
    assert split.period == (
        "train 2024-03-01 to 2024-03-04, test 2024-03-05 to 2024-03-06; "
        "settings chosen on 2024-03-04 to 2024-03-04"
    )
    assert split.day == day(6)
    # ann a b c, bob a b c, cat a b, dan a c; the test: ann d (unknown), cat c; eve is new.
    data = split.data
    assert (data.users, data.items, data.train_tuples, data.test_tuples) == (4, 3, 10, 5)
    final = split.final
    assert len(final.users) == 2
    assert (final.n_newcomers, final.n_dropped, final.n_unknown) == (1, 1, 1)
    # Validation: trained on three days, ann and bob then take c, which is too rare to be known.
    assert split.is_later
    assert split.windows[0].train.shape == (4, 2)
    assert len(split.windows[0].users) == 2
    assert split.windows[0].n_unknown == 2
    # As long windows before it: the third day after two, and the second after one.
    assert [own.last_days.data.max() for own in split.windows] == [
        split.final.last_days.data.max() - n for n in (1, 2, 3)
    ]


def test_the_window_of_the_pipeline_holds_and_the_test_ends_where_it_is_told(deliver):
    split = split_by_time(deliver(*DAYS, min_item_users=1, window_days=2), day(4))
    assert (split.data.train_tuples, split.final.train.shape) == (5, (4, 3))
    warehouse = deliver(*DAYS, min_item_users=1)
    split = split_by_time(warehouse, day(4), day(5))
    assert (split.data.test_tuples, split.day) == (3, day(5))
    split = split_by_time(warehouse, day(4), date(2031, 1, 1))
    assert (split.day, split.period) == (day(6), split_by_time(warehouse, day(4)).period)


def test_one_training_day_is_divided_by_items(deliver):
    first = ["ann a", "ann b", "bob a", "bob c", "cat a", "cat b", "cat c"]
    split = split_by_time(deliver(first, ["ann c"], min_item_users=1), day(1))
    assert "a fifth of everybody's training items" in split.period
    assert (split.windows[0].test.nnz, split.windows[0].train.nnz) == (3, 4)
    assert not split.is_later


@pytest.mark.parametrize(
    ("train_until", "test_until", "starts"),
    [
        # 274 training and 100 test days: 73 of 274 as 100 of 374.
        (date(2011, 8, 31), date(2011, 12, 9), date(2011, 6, 20)),
        (date(2010, 12, 2), date(2010, 12, 3), date(2010, 12, 2)),
        (date(2010, 12, 1), date(2010, 12, 3), None),
    ],
)
def test_validation_is_to_training_as_the_test_is_to_all(train_until, test_until, starts):
    assert validation_start(date(2010, 12, 1), train_until, test_until) == starts


TWO_DAYS = (["ann a", "ann b"], ["eve a", "ann a"], [], ["bob b"])


@pytest.mark.parametrize(
    ("days", "filters", "train", "test", "message"),
    [
        (DAYS, 1, 0, 6, "before the first day with events, 2024-03-01"),
        (DAYS, 1, 6, None, r"the last are of 2024-03-06"),
        (DAYS, 1, 4, 2, "the test would end on 2024-03-02, which is not after"),
        (TWO_DAYS, 1, 1, 2, "1 have no history and 1 took nothing new"),
        (TWO_DAYS, 1, 2, 3, "nobody took anything in the test data"),
        (DAYS, 9, 4, 6, "lower matrix.min_item_users"),
        ((), 1, 4, 6, "holds no events yet"),
    ],
)
def test_impossible_days_and_nothing_to_find_are_named(
    deliver, days, filters, train, test, message
):
    with pytest.raises(ComparisonError, match=message):
        split_by_time(
            deliver(*days, min_item_users=filters), day(train), day(test) if test else None
        )


def test_by_days_that_lie_apart(deliver, tmp_path):
    """The first and the last two days but one are trained on, as Ta-Feng's months are."""
    split = split_by_days(deliver(*DAYS), {day(1), day(4), day(5)}, name="months")
    # ann a c d, bob a b c, eve a; the test: ann b, cat a b c, dan a c, bob a (seen).
    assert (split.data.users, split.data.items) == (3, 4)
    assert (split.data.train_tuples, split.data.test_tuples) == (7, 7)
    final = split.final
    assert (len(final.users), final.n_newcomers, final.n_dropped) == (1, 2, 1)
    assert split.period.startswith("train 3 days of the dataset, test the other 3; settings")
    assert split.day is None
    with pytest.raises(ComparisonError, match="none of the 1 training days has events"):
        split_by_days(deliver(*DAYS), {day(20)}, name="months")
    with pytest.raises(WarehouseUnreadable):
        split_by_time(Warehouse(load_settings(tmp_path, {})), day(4))


def test_a_ready_split(files, split):
    data = split.data
    assert data.name == files[0].parent.name
    assert (data.users, data.items, data.train_tuples, data.test_tuples) == (80, 40, 800, 240)
    assert (split.windows[0].test.nnz, split.windows[0].train.nnz) == (160, 640)
    assert split.day is None
    again = split_of_files(*files)
    np.testing.assert_array_equal(again.windows[0].test.toarray(), split.windows[0].test.toarray())


@pytest.mark.parametrize(
    ("train", "test", "error", "message"),
    [
        ("0 1 2\n1 0 2\n", "0\n1\n", ComparisonError, "nobody took anything"),
        ("0 1 2\n1 0 2\n", "5 1 2\n0 1\n", ComparisonError, "1 have no history and 1 took nothing"),
        ("0\n1\n", "5 1 2\n0 1\n", ComparisonError, "nothing to train on"),
        ("0 1 2\n", None, DatasetError, "does not exist"),
    ],
)
def test_ready_splits_with_faults(tmp_path, train, test, error, message):
    (tmp_path / "train.txt").write_text(train)
    if test is not None:
        (tmp_path / "test.txt.gz").write_bytes(gzip.compress(test.encode()))
    with pytest.raises(error, match=message):
        split_of_files(tmp_path / "train.txt", tmp_path / "test.txt.gz")


def test_histories_of_one_item_leave_the_defaults(tmp_path):
    (tmp_path / "train.txt").write_text("0 1\n1 2\n")
    (tmp_path / "test.txt").write_text("0 2\n1 1\n")
    split = split_of_files(tmp_path / "train.txt", tmp_path / "test.txt")
    assert split.windows == ()
    assert "default settings" in split.period


# Items a, b, c, d, e: nobody takes c before the test.
TRAIN = [
    [2.0, 1, 0, 0, 0],  # takes c and b later
    [0, 0, 0, 0, 0],  # a newcomer, takes a later
    [0, 1, 0, 1, 0],  # takes b again, nothing new
    [1, 0, 0, 0, 1],  # never comes back
    [0, 0, 0, 1, 0],
]
TEST = [[0, 1.0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]]


def trial(**how):
    return make_trial(sparse.csr_array(np.array(TRAIN)), sparse.csr_array(np.array(TEST)), **how)


def test_users_with_a_history_and_something_new_are_asked_about():
    asked = trial()
    np.testing.assert_array_equal(
        asked.train.toarray(), [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]]
    )
    np.testing.assert_array_equal(asked.users, [0, 3])
    # Columns a, b, d, e of the catalogue, then c, which cannot be asked.
    np.testing.assert_array_equal(asked.test.toarray(), [[0, 0, 0, 0, 1], [1, 0, 0, 1, 0]])
    assert (asked.n_newcomers, asked.n_dropped, asked.n_unknown) == (1, 1, 1)
    np.testing.assert_array_equal(asked.test_in_catalogue().toarray()[3], [1, 0, 0, 1])
    again = trial(exclude_seen=False)
    np.testing.assert_array_equal(again.users, [0, 1, 3])
    np.testing.assert_array_equal(again.test.toarray()[:2], [[0, 1, 0, 0, 1], [0, 1, 0, 0, 0]])
    assert (again.n_newcomers, again.n_dropped) == (1, 0)


def test_a_sample_keeps_the_training_and_the_pairing():
    rng = np.random.default_rng(0)
    train, test = (sparse.csr_array((rng.random((200, 30)) < p) * 1.0) for p in (0.3, 0.2))
    whole = make_trial(train, test)
    some = whole.sample(50, np.random.default_rng(1))
    assert len(some.users) == 50
    assert some.train is whole.train
    rows = np.searchsorted(whole.users, some.users)
    np.testing.assert_array_equal(some.test.toarray(), whole.test.toarray()[rows])
    assert whole.sample(500, rng) is whole
