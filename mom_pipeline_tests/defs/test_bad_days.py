"""Days as they come: out of order, malformed, thin, removed, excluded, dropped and accepted."""

import gzip
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest

from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.decisions import accept_day, drop_day
from mom_pipeline.logs.sample_logs import user_id
from mom_pipeline.serving.registry import ModelRegistry

from .conftest import N_DAYS, Pipeline, day, lines_of

LISTS = "SELECT * EXCLUDE (model) FROM recommendations ORDER BY ALL"
ROWS = "SELECT * FROM admitted_logs ORDER BY ALL"
MATRIX = "interaction_matrix"
# Of those that are rebuilt every day.
DAYS = 4


@pytest.fixture
def in_full(empty: Pipeline) -> Pipeline:
    """Every day is rebuilt: its arrays depend on its rows, not on the days before."""
    empty.configure("capture_threshold = 0.0", "capture_threshold = 1.0")
    return empty


@pytest.fixture(scope="module")
def in_order(
    tmp_path_factory: pytest.TempPathFactory, log_files: Mapping[str, bytes]
) -> Iterator[Pipeline]:
    """The same, all days in time and in one run. Only to be looked at."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("in_order"), instance)
        pipeline.configure("capture_threshold = 0.0", "capture_threshold = 1.0")
        pipeline.deliver(dict(sorted(log_files.items())[:DAYS]))
        pipeline.update()
        yield pipeline


def test_days_out_of_order_corrected_and_malformed_end_as_days_in_order(
    in_full: Pipeline, in_order: Pipeline, log_files
):
    names = sorted(log_files)
    cut_short = gzip.decompress(log_files[names[1]])[:-40]
    deliveries = [
        {names[2]: log_files[names[2]]},
        {
            names[0]: log_files[names[0]],
            names[1]: gzip.compress(cut_short, mtime=0),
            names[3]: log_files[names[2]],
            f"{day(2)}-late.csv": b"no header\n",
        },
        {names[n]: log_files[names[n]] for n in (1, 3)},
    ]
    for files in deliveries:
        in_full.deliver(files)
        in_full.update()
    assert in_full.statuses()[day(2)].status == "failed"  # its late file was refused
    os.remove(in_full.settings.logs_dir / f"{day(2)}-late.csv")
    in_full.update()
    assert in_full.states() == ["fresh"] * DAYS
    assert in_full.query(ROWS) == in_order.query(ROWS)
    assert in_full.versions(MATRIX, "decomposition") == in_order.versions(MATRIX, "decomposition")
    assert in_full.query(LISTS) == in_order.query(LISTS)


def test_a_malformed_file_costs_its_own_day_and_leaves_what_was_delivered(
    copied: Pipeline, log_files
):
    name, before, rows = sorted(log_files)[2], copied.versions(MATRIX), copied.query(ROWS)
    copied.deliver({name: b"not,a,log\n"})
    copied.update()
    states = copied.statuses()
    assert states[day(3)].status == "failed"
    assert states[day(3)].noteworthy
    assert [states[day(n)].status for n in (1, 2, 4, 5)] == ["fresh"] * 4
    assert copied.query(ROWS) == rows
    assert copied.versions(MATRIX) == before
    copied.deliver({name: log_files[name]})
    copied.update()
    assert copied.states() == ["fresh"] * N_DAYS


def test_thin_first_days_are_days(empty: Pipeline, log_files):
    names = sorted(log_files)
    thin = {f"{day(n)}.csv": lines_of(day(n), user_id(n)) for n in (1, 2)}
    empty.deliver(thin)
    empty.update()
    assert ModelRegistry(empty.settings.models_dir).champion_version() is None
    assert empty.query(LISTS) == []
    empty.deliver({name: log_files[name] for name in names[2:4]})
    empty.update()
    assert empty.states() == ["fresh"] * 4
    assert empty.metadata("decomposition", 2)["note"].startswith("too little yet")
    assert [empty.mode(n).split(":")[0] for n in (3, 4)] == ["full", "incremental"]
    assert ModelRegistry(empty.settings.models_dir).champion_version()


def test_a_removed_file_is_reported_and_its_rows_stay(copied: Pipeline, log_files):
    rows = copied.query(ROWS)
    os.remove(copied.settings.logs_dir / sorted(log_files)[3])
    assert copied.behind() == []
    entry = copied.statuses()[day(4)]
    assert (entry.status, entry.noteworthy) == ("fresh", True)
    assert f"drop {day(4)}" in entry.reason
    assert copied.query(ROWS) == rows


def test_a_dropped_day_goes_and_an_accepted_one_is_as_it_was(
    tmp_path: Path, in_order: Pipeline, log_files
):
    shutil.copytree(in_order.root, tmp_path / "copied")
    pipeline = Pipeline(tmp_path / "copied", in_order.instance)
    pipeline.configure("capture_threshold = 0.0", "capture_threshold = 1.0")
    name = sorted(log_files)[2]
    assert drop_day(pipeline.warehouse, day(3)) > 0
    pipeline.update()
    assert pipeline.query(f"SELECT count(*) FROM raw_logs WHERE delivery_day = '{day(3)}'") == [
        (0,)
    ]
    assert f"accept {day(3)}" in pipeline.statuses()[day(3)].reason
    assert pipeline.versions(MATRIX) != in_order.versions(MATRIX)
    os.remove(pipeline.settings.logs_dir / name)
    with pytest.raises(LogFileError, match="no longer in the logs folder"):
        accept_day(pipeline.warehouse, day(3))
    pipeline.deliver({name: log_files[name]})
    assert "dropped" in accept_day(pipeline.warehouse, day(3))
    pipeline.update()
    assert pipeline.versions(MATRIX) == in_order.versions(MATRIX)
    assert pipeline.query(LISTS) == in_order.query(LISTS)
