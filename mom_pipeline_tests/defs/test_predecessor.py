"""A day whose predecessor cannot be built upon is computed in full, and says why.

Every asset runs for a missing day and for other settings; elsewhere those up to the model.
"""

import pytest

from mom_pipeline.artifacts import day_artifacts
from mom_pipeline.artifacts.day_artifacts import StaleArtifact

from .conftest import MODEL, N_DAYS, Pipeline, day


def test_a_day_that_was_left_out(empty: Pipeline, log_files):
    """The newest day before serves: a long time without files is not computed day by day."""
    empty.deliver(log_files)
    empty.run(1, only=MODEL)
    empty.run(3, only=MODEL)
    assert empty.mode(3) == "incremental"
    assert empty.state.day_before(day(3)) == day(1)
    assert empty.state.model(day(3))[0].weights.sum() == pytest.approx(1)


def test_other_settings(copied: Pipeline):
    copied.configure("n_components = 3", "n_components = 2")
    copied.run(4)
    assert copied.mode(4) == "full: m2_statistics of 2024-03-03 was made with other settings"
    assert copied.state.model(day(4))[0].item_probs.shape[1] == 2
    with pytest.raises(StaleArtifact, match="other settings"):
        copied.state.model(day(3))


def test_other_code(copied: Pipeline, monkeypatch):
    made_by = day_artifacts.CODE_VERSION
    monkeypatch.setattr(day_artifacts, "CODE_VERSION", "later")
    copied.run(4, only=MODEL)
    reason = f"m2_statistics of 2024-03-03 was made by code version {made_by}, not later"
    assert copied.mode(4) == f"full: {reason}"


def test_a_damaged_file(copied: Pipeline):
    folder = copied.settings.artifacts_dir / "m2_statistics" / "2024-03-03"
    (array,) = folder.glob("*/pairs.npz")
    content = bytearray(array.read_bytes())
    content[-40] ^= 1
    array.write_bytes(content)
    copied.run(4, only=MODEL)
    assert copied.mode(4).startswith("full: m2_statistics of 2024-03-03 is damaged: ")


def test_a_day_before_that_was_made_from_an_earlier_matrix(copied: Pipeline):
    X, _ = copied.state.matrix(day(3))
    changed = X.copy()
    changed.data[0] += 1
    copied.state.write_matrix(day(3), changed, copied.state.last_days(day(3)), "other logs")
    copied.run(4, only=MODEL)
    assert "made from an earlier interaction_matrix" in copied.mode(4)


def test_an_anchor_that_was_replaced(copied: Pipeline):
    copied.configure("frequent_items = 20", "frequent_items = 10")
    copied.run(1, only=MODEL)
    copied.run(4, only=MODEL)
    assert copied.mode(4) == "full: the anchor of 2024-03-01 was replaced since 2024-03-03"


def test_a_day_before_that_failed_its_checks(copied: Pipeline):
    _, _, found = copied.state.moments(day(3))
    copied.state.write(
        "m2_statistics", day(3), found.arrays, found.parents, found.metadata, sound=False
    )
    copied.run(4, only=MODEL)
    assert copied.mode(4) == "full: m2_statistics of 2024-03-03 did not pass its checks"


def test_a_rebuild_that_was_asked_for_keeps_the_components_in_their_places(copied: Pipeline):
    before = copied.state.model(day(N_DAYS))[0]
    copied.run(N_DAYS, only=MODEL, full=True)
    assert copied.mode(N_DAYS) == "full: a full rebuild was asked for"
    after = copied.state.model(day(N_DAYS))[0]
    assert abs(before.weights - after.weights).max() < 0.05
    assert copied.metadata("decomposition", N_DAYS)["largest_drift"] < 0.5


def test_a_basis_that_holds_too_little(copied: Pipeline):
    copied.configure("capture_threshold = 0.0", "capture_threshold = 1.0")
    done = copied.run(4, only=MODEL)
    assert "below 1" in copied.mode(4)
    checks = {c.check_name: c for c in done.get_asset_check_evaluations()}
    assert checks["captured"].passed  # the day was rebuilt, and says so
    assert "rebuilt: the basis of the last rebuild holds" in checks["captured"].description


def test_an_input_of_the_day_itself_that_is_missing_stops_the_run(empty: Pipeline, log_files):
    empty.deliver(log_files)
    done = empty.run(1, only=["m2_statistics"], succeeds=False)
    assert not done.success
