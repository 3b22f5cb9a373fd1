"""Which days keep their arrays."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.artifacts.retention import Removed, apply_retention, days_of_months, is_expired
from mom_pipeline.artifacts.store import ArtifactStore
from mom_pipeline.errors import DamagedArtifact, ExpiredArrays

FIRST = date(2024, 1, 30)
DAYS = [FIRST + timedelta(days=n) for n in range(10)]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """Ten days around the end of a month, with an anchor on the first and on the eighth."""
    store = ArtifactStore(tmp_path)
    for day in DAYS:
        anchor = DAYS[0] if day < DAYS[7] else DAYS[7]
        if anchor == day:
            store.write("anchor", day, {"x": np.ones(2)}, "s")
        facts = {"anchor_day": anchor.isoformat()}
        store.write("m2_statistics", day, {"x": np.ones(2)}, "s", metadata=facts)
        names = ("item_probs", "rounded_probs", "anchor_components")
        model = {name: np.ones(2) for name in names}
        store.write("decomposition", day, model, "s")
    return store


def test_the_last_days_and_one_of_a_month_are_kept(store: ArtifactStore):
    assert apply_retention(store, 4, DAYS[-2:], 0) == Removed(
        days=4 * 2 + 1, moments=4
    )  # and an anchor
    kept = [DAYS[0], DAYS[2], *DAYS[6:]]  # the first of January, and of February
    assert store.days("decomposition") == store.days("m2_statistics") == kept
    for day in kept:
        left = set(store.read("decomposition", day).arrays)
        start = {"item_probs", "anchor_components"} if day in DAYS[-2:] else set()
        assert left == {"rounded_probs"} | start
    for day in kept[:-2]:
        assert store.describe("m2_statistics", day).metadata
        with pytest.raises(ExpiredArrays):
            store.read("m2_statistics", day)
    assert all(store.read("m2_statistics", day).arrays for day in kept[-2:])
    assert apply_retention(store, 4, DAYS[-2:], 0) == Removed(0, 0)


def test_an_anchor_stays_while_moments_that_are_kept_were_made_with_it(store: ArtifactStore):
    apply_retention(store, 5, DAYS[-4:], 0)
    assert store.days("anchor") == [DAYS[0], DAYS[7]]  # the seventh day was made with the first
    apply_retention(store, 5, DAYS[-3:], 0)
    assert store.days("anchor") == [DAYS[7]]


def test_of_days_that_rank_the_counts_stay(store: ArtifactStore):
    arrays = {"triples": np.ones(3), "item_users": np.arange(4), "pair_steps": np.arange(5)}
    for day in DAYS[-4:]:
        facts = store.describe("m2_statistics", day).metadata
        store.write("m2_statistics", day, arrays, "s", metadata=facts)
        store.write("whitened_tensor", day, {"x": np.ones(2)}, "s")
    apply_retention(store, 8, DAYS[-4:], 0, listed=DAYS[-4])
    for day in DAYS[-2:]:
        assert set(store.read("m2_statistics", day).arrays) == set(arrays)
    for day, exact in ((DAYS[-4], {"item_probs"}), (DAYS[-3], set())):
        assert set(store.read("decomposition", day).arrays) == {"rounded_probs"} | exact
    # Of the first anchor no later day has pairs; of the second one the last two days have.
    for day, pairs in ((DAYS[-4], {"pair_steps"}), (DAYS[-3], set())):
        left = store.read("m2_statistics", day).arrays
        np.testing.assert_array_equal(left["item_users"], np.arange(4))
        assert set(left) == {"item_users"} | pairs
        with pytest.raises(ExpiredArrays):
            store.read("whitened_tensor", day)
    (damaged,) = store.root.glob(f"m2_statistics/{DAYS[-4]}/*/pair_steps.npz")
    damaged.write_bytes(b"other bytes")
    with pytest.raises(DamagedArtifact, match="differs from its manifest"):
        store.read("m2_statistics", DAYS[-4])
    assert apply_retention(store, 8, DAYS[-4:], 0, listed=DAYS[-4]) == Removed(0, 0)


def test_days_that_were_asked_for_stay_whole(store: ArtifactStore):
    apply_retention(store, 4, DAYS[-2:], 0, spared=DAYS[3:5])
    assert set(DAYS[3:5]) <= set(store.days("m2_statistics"))
    assert store.read("m2_statistics", DAYS[3]).arrays


def test_moments_that_fit_are_kept(store: ArtifactStore):
    per_day = store.size("m2_statistics", DAYS[0])
    assert per_day > 0
    assert apply_retention(store, 8, DAYS[-2:], 5 * per_day).moments == 4
    kept = store.days("m2_statistics")
    assert [d for d in kept if store.size("m2_statistics", d)] == kept[-5:]


def test_no_retention_keeps_all(store: ArtifactStore):
    assert apply_retention(store, 0, DAYS[-2:], 0) == Removed(0, 0)
    assert not is_expired(store, "decomposition", DAYS[0], 0)
    assert is_expired(store, "decomposition", DAYS[5], 4)
    assert not is_expired(store, "decomposition", DAYS[6], 4)


def test_the_first_day_of_a_month_is_the_first_that_is_there():
    assert days_of_months(DAYS[1:]) == {DAYS[1], DAYS[2]}
    assert days_of_months([]) == set()
