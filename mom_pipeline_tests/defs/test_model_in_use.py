"""The model in use is that of the newest usual day that passed, however other days ended."""

import gzip
import shutil
from collections.abc import Mapping

import pytest

from mom_pipeline.serving.registry import POINTER, ModelRegistry

from .conftest import MODEL, N_DAYS, Pipeline, day


def champion(pipeline: Pipeline) -> str:
    """The day of the model in use."""
    return str(ModelRegistry(pipeline.settings.models_dir).champion_version())[:10]


def cut(content: bytes, share: float) -> bytes:
    """The beginning of a log file, as an export that ends in the middle of a day has it."""
    lines = gzip.decompress(content).splitlines(keepends=True)
    return gzip.compress(b"".join(lines[: int(share * len(lines))]), mtime=0)


@pytest.fixture
def with_cut_end(copied: Pipeline, log_files: Mapping[str, bytes]) -> Pipeline:
    """Days of which the last is cut after some minutes, and no model yet."""
    last = sorted(log_files)[-1]
    copied.deliver({last: cut(log_files[last], 0.03)})
    shutil.rmtree(copied.settings.models_dir)
    return copied


@pytest.mark.parametrize("kept", [1, 10])
def test_in_one_backfill(with_cut_end: Pipeline, kept: int):
    with_cut_end.configure("keep_versions = 10", f"keep_versions = {kept}")
    with_cut_end.run(N_DAYS - 1, N_DAYS)
    assert with_cut_end.statuses()[day(N_DAYS)].status == "excluded"
    assert champion(with_cut_end) == str(day(N_DAYS - 1))
    lists = with_cut_end.query("SELECT DISTINCT model FROM recommendations")
    assert [model[:10] for (model,) in lists] == [str(day(N_DAYS - 1))]
    assert "excluded" in with_cut_end.metadata("promotion", N_DAYS)["note"]


def test_day_by_day_and_with_the_whole_day_later(with_cut_end: Pipeline, log_files):
    with_cut_end.run(N_DAYS - 1)
    with_cut_end.run(N_DAYS)
    assert champion(with_cut_end) == str(day(N_DAYS - 1))
    with_cut_end.deliver(log_files)
    with_cut_end.run(N_DAYS)
    assert with_cut_end.statuses()[day(N_DAYS)].status == "fresh"
    assert champion(with_cut_end) == str(day(N_DAYS))


def test_a_day_that_failed_a_check_leaves_the_day_before(copied: Pipeline):
    """One backfill whose newest day has no sound model: the one before goes through the gate."""
    (copied.settings.models_dir / POINTER).unlink()
    copied.query(
        f"UPDATE materializations SET sound = false WHERE asset = '{MODEL[-1]}' "
        f"AND day = '{day(N_DAYS)}'"
    )
    copied.run(N_DAYS - 1, N_DAYS, only=["promotion", "recommendations"])
    assert champion(copied) == str(day(N_DAYS - 1))
