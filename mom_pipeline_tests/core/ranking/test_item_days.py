"""Counts by item and day, and what they say of the items."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.ranking.item_days import HALF_LIVES, ItemDays, as_last_days

D = 12


@pytest.fixture
def days(rng):
    """(N, D) of last days; nobody takes the last item."""
    taken = rng.random((90, D)) < 0.3
    taken[:, -1] = False
    return sparse.csr_array((rng.integers(700, 760, (90, D)) * taken).astype(float))


def assert_same(ours, theirs):
    for name in ("items", "days", "users", "n_items"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def test_changed_rows_alone_bring_the_counts_up_to_date(days):
    """Also with items that are new."""
    old = sparse.csr_array(days[:60, :9])
    removed, kept = sparse.csr_array(days[:20, :9]), days[20:60].toarray()
    kept[:, 9:] = 0
    updated = ItemDays.from_rows(old).update(removed, days[60:])
    now = sparse.csr_array(np.vstack([kept, days[60:].toarray()]))
    assert_same(updated, ItemDays.from_rows(now))
    assert_same(ItemDays.from_rows(days[:30]) + ItemDays.from_rows(days[30:]), whole(days))
    assert whole(days).update(days, days[:0]).newest == 0


def whole(days):
    return ItemDays.from_rows(days)


def test_more_than_there_is_cannot_be_removed(days):
    with pytest.raises(InvalidInteractions):
        whole(days[:40]).update(days[30:], days[:0])
    other_day = days[:1].copy()
    other_day.data -= 100.0
    with pytest.raises(InvalidInteractions):
        whole(days).update(other_day, days[:0])


def test_features_are_those_of_a_loop_over_items(days):
    days.data[days.indices == 0] = 755  # of one item all came on one day
    features, newest = whole(days).features(), days.data.max()
    oldest = newest - days.data.min()
    for item, column in enumerate(days.toarray().T):
        ago = newest - column[column > 0]
        for h in HALF_LIVES:
            late = sum(
                min((ago == d).sum(), (ago != d).sum() + 3 if d < oldest else len(ago))
                * 2 ** (-d / h)
                for d in set(ago)
            )
            assert features[f"users_{h}"][item] == pytest.approx(np.log(late + 0.1))
        quiet = ago.min() if len(ago) else oldest
        assert features["quiet"][item] == pytest.approx(np.log1p(quiet))


def test_a_crowd_of_one_day_counts_as_few_until_another_day_confirms_it(days):
    calm = sparse.csr_array(sparse.vstack([days, days]) > 0) * 700.0
    crowd = sparse.csr_array((np.full(50, 759.0), (np.arange(50), np.full(50, D - 1))), (50, D))
    rising = "users_1", "users_14"

    def late(*rows):
        features = ItemDays.from_rows(sparse.vstack([calm, *rows], format="csr")).features()
        return [np.exp(features[name][D - 1]) - 0.1 for name in rising]

    np.testing.assert_allclose(late(crowd), [3, 3])
    np.testing.assert_allclose(late(crowd[:2]), [2, 2])
    day_before = crowd.copy()
    day_before.data -= 1
    np.testing.assert_allclose(late(crowd, day_before), [50 * 1.5, 50 * (1 + 2 ** (-1 / 14))])
    # What is delivered at once, without days, is no crowd.
    alone = ItemDays.from_rows(calm)
    np.testing.assert_allclose(
        np.exp(alone.features()["users_1"]) - 0.1, (calm > 0).sum(axis=0), atol=1e-9
    )


def test_where_items_live_for_a_day_their_days_count():
    """News: nobody takes an item on a second day."""
    users = np.arange(1, 11)[::-1] * 10
    rows = [np.full((n, 1), item) for item, n in enumerate(users)]
    items = np.concatenate(rows).ravel()
    days = sparse.csr_array((700.0 + items, (np.arange(len(items)), items)))
    late = np.exp(ItemDays.from_rows(days).features()["users_14"]) - 0.1
    counted = late * 2 ** ((9 - np.arange(10)) / 14)
    assert counted.sum() > 0.9 * users.sum()
    assert (np.diff(counted) < 0).sum() > 5


def test_stored_and_read_again_it_is_the_same(days):
    for counts in (whole(days), whole(sparse.csr_array((3, D)))):
        assert_same(ItemDays.from_arrays(counts.as_arrays()), counts)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("item_day_users", lambda a: a[:-1]),
        ("item_days", lambda a: a[1:]),
        ("item_day_starts", lambda a: a[:-1]),
        ("item_day_starts", lambda a: a[::-1]),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(days, name, change):
    arrays = whole(days[:, :-1]).as_arrays()
    with pytest.raises(ValueError, match="fit together"):
        ItemDays.from_arrays({**arrays, name: change(arrays[name])})


def test_days_must_be_those_of_the_pairs(days):
    X = days.astype(bool).astype(float)
    np.testing.assert_array_equal(as_last_days(days, X).toarray(), days.toarray())
    for wrong in (days[:, ::-1], days[:10], -days):
        with pytest.raises(InvalidInteractions):
            as_last_days(wrong, X)
