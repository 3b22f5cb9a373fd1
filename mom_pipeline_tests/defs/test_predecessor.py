"""A day whose predecessor cannot be built upon is computed in full, and says why."""

import re
from collections.abc import Callable

import pytest

from mom_pipeline.pipeline.days import NotUsable
from mom_pipeline_tests.running import flip

from .conftest import MODEL, N_DAYS, Pipeline, day

BEFORE, LAST = day(N_DAYS - 1), N_DAYS


def file_of(pipeline: Pipeline, asset: str):
    return pipeline.days.store.path(asset, pipeline.days.made[asset, BEFORE].version)


def damaged(pipeline: Pipeline) -> None:
    flip(file_of(pipeline, "m2_statistics"))


def without_sums(pipeline: Pipeline) -> None:
    made = pipeline.days.made["m2_statistics", BEFORE]
    pipeline.days.store.path("moment_sums", made.facts["moment_sums"]).unlink()


def with_row(column: str) -> Callable[[Pipeline], object]:
    """Another value in the row of the ledger."""
    where = f"WHERE asset = 'm2_statistics' AND day = '{BEFORE}'"
    return lambda pipeline: pipeline.query(f"UPDATE materializations SET {column} {where}")


HARMS: dict[str, tuple[Callable[[Pipeline], object], str]] = {
    "damaged": (damaged, "gone or damaged"),
    "gone": (lambda p: file_of(p, "m2_statistics").unlink(), "gone or damaged"),
    "without its sums": (without_sums, "gone or damaged"),
    "unsound": (with_row("sound = false"), f"m2_statistics of {BEFORE} did not pass its checks"),
    "earlier matrix": (with_row("inputs = '{}'"), "made from an earlier interaction_matrix"),
    "other code": (with_row("code = '0'"), "was made by code version 0"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_day_before_that_cannot_be_built_upon(copied: Pipeline, harm: str):
    make, reason = HARMS[harm]
    make(copied)
    with pytest.raises(NotUsable, match=reason):
        copied.days.yesterday(day(LAST))


def test_a_day_after_damage_is_computed_in_full(copied: Pipeline):
    damaged(copied)
    copied.run(LAST, only=MODEL)
    assert copied.mode(LAST) == f"full: the arrays of m2_statistics of {BEFORE} are gone or damaged"
    assert copied.days.model(day(LAST)).weights.sum() == pytest.approx(1)


def test_a_basis_that_holds_too_little_is_made_anew(copied: Pipeline):
    copied.configure("capture_threshold = 0.0", "capture_threshold = 1.0")
    copied.run(LAST, only=MODEL)
    assert re.match("full: the basis .* below 1", copied.mode(LAST))


def test_other_settings(copied: Pipeline):
    copied.configure("n_components = 3", "n_components = 2")
    copied.run(LAST, only=MODEL)
    assert copied.mode(LAST).startswith("full: ")
    assert copied.days.model(day(LAST)).item_probs.shape[1] == 2
    with pytest.raises(NotUsable, match="other settings"):
        copied.days.model(BEFORE)


def test_a_day_that_was_skipped(empty: Pipeline, log_files):
    """The newest day before serves: a long time without files is not computed day by day."""
    empty.deliver(log_files)
    empty.run(1, only=MODEL)
    empty.run(3, only=MODEL)
    assert empty.mode(3) == "incremental"
    assert empty.days.day_before(day(3)) == day(1)


def test_a_rebuild_that_was_asked_for_keeps_the_components_in_their_places(copied: Pipeline):
    before = copied.days.model(day(LAST))
    copied.run(LAST, only=MODEL, full=True)
    assert copied.mode(LAST) == "full: a full rebuild was asked for"
    after = copied.days.model(day(LAST))
    assert abs(before.weights - after.weights).max() < 0.05
    assert copied.metadata("decomposition", LAST)["largest_drift"] < 0.5


def test_an_input_of_the_day_itself_that_is_missing_stops_the_run(empty: Pipeline, log_files):
    empty.deliver(log_files)
    done = empty.run(1, only=["m2_statistics"], succeeds=False)
    assert not done.success
    assert empty.states()[0] == "failed"
