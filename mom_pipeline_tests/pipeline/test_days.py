"""`Days`: the ledger and the arrays of a folder, without Dagster."""

from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.pipeline import days as days_module
from mom_pipeline.pipeline.days import INPUTS, TOO_LITTLE, Days, NotUsable, TooLittleYet
from mom_pipeline.settings import ArtifactSettings, MatrixSettings
from mom_pipeline_tests.data_folder import DataFolder

FIRST = date(2024, 3, 1)
ARRAYS = {"tensor": np.arange(3.0)}


def day(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


@pytest.fixture
def days(folder: DataFolder) -> Days:
    """Three days of which the assets up to the tensor were made."""
    made = Days(folder.settings)
    for number in (1, 2, 3):
        for asset in list(INPUTS)[:6]:
            made.publish(asset, day(number), arrays={**ARRAYS, "n": np.array([number])})
    return made


def test_what_is_published_is_read_by_another_process(days: Days):
    other = Days(days.settings)
    assert other.made == days.made
    assert other.computed() == [day(1), day(2), day(3)]
    np.testing.assert_array_equal(other.arrays("whitened_tensor", day(2))["n"], [2])
    assert other.usable("whitened_tensor", day(2)).inputs == {
        "whitening_matrix": days.made["whitening_matrix", day(2)].version
    }


def test_days_without_files_are_skipped(days: Days):
    assert days.day_before(day(9)) == day(3)
    assert days.day_before(day(2)) == day(1)
    assert days.day_before(day(1)) == day(0)  # of which there is nothing


def test_an_input_that_was_made_anew_makes_stale_what_rests_on_it(days: Days):
    days.publish("m2_statistics", day(2), arrays={"other": np.ones(2)})
    assert "m2_statistics" in days.staleness("whitening_matrix", day(2))
    assert days.staleness("whitening_matrix", day(1)) == ""
    with pytest.raises(NotUsable, match="earlier m2_statistics"):
        days.arrays("whitening_matrix", day(2))


def test_other_settings_other_code_and_failed_checks(days: Days, monkeypatch: pytest.MonkeyPatch):
    settings = days.settings.model_copy(update={"matrix": MatrixSettings(min_item_users=2)})
    assert "other settings" in Days(settings).staleness("interaction_matrix", day(1))
    assert Days(settings).staleness("raw_logs", day(1)) == ""
    days.publish("whitened_tensor", day(1), arrays=ARRAYS, sound=False)
    with pytest.raises(NotUsable, match="did not pass"):
        days.usable("whitened_tensor", day(1))
    days.publish("whitened_tensor", day(1), version="x", facts={TOO_LITTLE: "two users"})
    with pytest.raises(TooLittleYet, match="two users"):
        days.usable("whitened_tensor", day(1))
    monkeypatch.setattr(days_module, "CODE_VERSION", "later")
    assert "code version" in days.staleness("raw_logs", day(1))


def test_arrays_that_are_gone_are_said(days: Days):
    days.store.path("whitened_tensor", days.made["whitened_tensor", day(1)].version).unlink()
    assert days.lacks_arrays("whitened_tensor", day(1))
    assert not days.lacks_arrays("whitened_tensor", day(2))
    with pytest.raises(NotUsable, match="gone or damaged"):
        days.arrays("whitened_tensor", day(1))


def test_a_write_that_fails_points_to_what_was_there(days: Days):
    before = days.made["whitened_tensor", day(1)]

    def fails(connection: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        days.publish("whitened_tensor", day(1), arrays={"new": np.ones(1)}, also=fails)
    assert Days(days.settings).made["whitened_tensor", day(1)] == before


def test_the_files_of_old_days_go_and_their_rows_stay(days: Days):
    rows = dict(days.made)
    settings = days.settings.model_copy(update={"artifacts": ArtifactSettings(retention_days=2)})
    keeping = Days(settings)
    assert keeping.store.remove_others(keeping.kept_files()) == 6
    assert keeping.made == rows
    assert [keeping.is_kept(day(n)) for n in (1, 2, 3)] == [False, True, True]
    assert keeping.lacks_arrays("whitened_tensor", day(1))
    assert not keeping.lacks_arrays("whitened_tensor", day(2))
