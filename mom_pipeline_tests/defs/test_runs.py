"""Runs under way, and runs whose process is gone, in a real instance."""

import os

import dagster as dg
import pytest

from mom_pipeline.defs.runs import PROCESS_TAG, RunUnderWay, _mark, require_no_run


@dg.job
def nothing() -> None:
    """A job to make runs of."""


def started(instance: dg.DagsterInstance, mark: str = "") -> dg.DagsterRun:
    """A run that has begun and not ended, as one leaves it that was killed."""
    run = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED)
    if mark:
        instance.add_run_tags(run.run_id, {PROCESS_TAG: mark.replace("RUN", run.run_id)})
    return run


def test_a_run_of_a_living_process_or_of_none_that_is_known_is_under_way():
    with dg.instance_for_test() as instance:
        require_no_run(instance)
        for mark in ("", _mark("RUN"), _mark("another run"), "RUN elsewhere 1 2", "odd"):
            run = started(instance, mark)
            with pytest.raises(RunUnderWay, match=run.run_id):
                require_no_run(instance)
            instance.delete_run(run.run_id)


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING", "CANCELING"])
def test_a_run_that_waits_is_under_way(status):
    with dg.instance_for_test() as instance:
        instance.create_run_for_job(nothing, status=dg.DagsterRunStatus[status])
        with pytest.raises(RunUnderWay, match=status):
            require_no_run(instance)


def test_a_run_whose_process_is_gone_is_noted_as_failed():
    with dg.instance_for_test() as instance:
        reused = f"{_mark('RUN').rpartition(' ')[0]} 1"  # the number of a process, used again
        for mark in (_mark("RUN").replace(str(os.getpid()), "4194305"), reused):
            run = started(instance, mark)
            require_no_run(instance)
            assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE
        assert nothing.execute_in_process(instance=instance).success
        require_no_run(instance)
