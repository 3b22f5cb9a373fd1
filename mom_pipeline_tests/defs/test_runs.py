"""Runs under way, and runs whose process is gone, in a real instance."""

import os
import threading
from itertools import cycle

import dagster as dg

from mom_pipeline.core.dense import fits_dense
from mom_pipeline.defs import runs
from mom_pipeline.defs.run_tags import days_tag
from mom_pipeline.defs.runs import PROCESS_TAG, _mark, close_dead_runs, is_under_way
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.artifacts.test_writer import holder

from .conftest import MODEL, N_DAYS, Pipeline, day
from .test_automation import look


@dg.job
def nothing() -> None:
    """A job to make runs of."""


def begun(instance: dg.DagsterInstance, mark: str = "", status: str = "STARTED") -> dg.DagsterRun:
    """A run that has begun and not ended, as one leaves it that was killed."""
    run = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus[status])
    if mark:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: mark.replace("RUN", run.run_id)})
    return run


def test_a_run_that_waits_or_whose_process_lives_is_under_way():
    marks = ("", _mark("RUN"), _mark("another run"), "RUN elsewhere 1 2", "odd")
    statuses = ("NOT_STARTED", "STARTING", "STARTED", "CANCELING")
    with dg.instance_for_test() as instance:
        assert not is_under_way(instance)
        for mark, status in zip(marks, cycle(statuses), strict=False):
            run = begun(instance, mark, status)
            close_dead_runs(instance)
            assert is_under_way(instance)
            assert instance.get_run_by_id(run.run_id).status.value == status
            instance.delete_run(run.run_id)


def test_a_run_whose_process_is_gone_is_noted_as_failed():
    with dg.instance_for_test() as instance:
        reused = f"{_mark('RUN').rpartition(' ')[0]} 1"  # the number of a process, used again
        for mark in (_mark("RUN").replace(str(os.getpid()), "4194305"), reused):
            for status in ("NOT_STARTED", "STARTED"):
                run = begun(instance, mark, status)
                assert not is_under_way(instance)
                close_dead_runs(instance)
                assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
        assert nothing.execute_in_process(instance=instance).success


def test_a_run_that_never_recorded_its_process_is_not_alive_for_ever(monkeypatch):
    with dg.instance_for_test() as instance:
        run = begun(instance, status="NOT_STARTED")
        monkeypatch.setattr(runs, "SECONDS_TO_START", -1)
        assert not is_under_way(instance)
        close_dead_runs(instance)
        assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE


def test_a_run_says_in_its_tags_what_it_was_about_and_what_came_of_it(backfilled: Pipeline):
    (run,) = backfilled.instance.get_runs()
    (recall,) = backfilled.query(
        f"SELECT recall_at_k FROM evaluation_metrics WHERE day = '{day(N_DAYS)}' "
        "AND ranking = 'components' AND cutoff = 20"
    )[0]
    shown = {key: value for key, value in run.tags.items() if "dagster/" not in key}
    assert shown == {
        "days": f"{day(1)} to {day(N_DAYS)}",
        "model": ModelRegistry(backfilled.settings.models_dir).champion_version(),
        "recall": f"{recall:.4f}",
    }
    assert days_tag({"dagster/partition": "2024-03-01"}) == {"days": "2024-03-01"}
    assert days_tag({}) == {}


def test_a_run_waits_for_whoever_writes_to_the_folder(empty: Pipeline, log_files):
    """As a run of the daemon does beside a command; the sensor asks for nothing meanwhile."""
    empty.deliver(log_files)
    done = threading.Event()

    def run() -> None:
        empty.run(1, only=["raw_logs"])
        done.set()

    with holder(empty.root) as process:
        thread = threading.Thread(target=run)
        thread.start()
        assert f"mom-pipeline update (process {process.pid})" in look(empty).skip_message
        assert not done.wait(1)
    thread.join(60)
    assert done.is_set()


def test_days_write_out_no_matrix_beyond_the_setting(copied: Pipeline, monkeypatch):
    """`rebuild.dense_megabytes` holds where the eigenvectors of a day are computed."""
    allowed = []

    def asked(n_bytes: int) -> bool:
        allowed.append([fits_dense(bound) for bound in (7 * 2**20, 7 * 2**20 + 1)])
        return fits_dense(n_bytes)

    monkeypatch.setattr("mom_pipeline.core.linear_algebra.eigenpairs.fits_dense", asked)
    copied.configure("[rebuild]", "[rebuild]\ndense_megabytes = 7")
    copied.run(4, only=MODEL)
    assert allowed
    assert all(bounds == [True, False] for bounds in allowed)
