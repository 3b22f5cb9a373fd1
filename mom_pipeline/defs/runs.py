"""Runs that are under way, as distinct from those whose process was killed.

Dagster records that a run has started and that it has ended. A killed run never ends in its
records, so every run also records its process.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from mom_pipeline.core.errors import MomError

PROCESS_TAG = "mom/process"
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class RunUnderWay(MomError):
    """A run of the pipeline is writing below the data folder, or about to."""


def note_process(context: dg.AssetExecutionContext) -> None:
    """Record the process of a run in its tags."""
    run_id = context.run.run_id
    context.instance.add_run_tags(run_id, {PROCESS_TAG: _mark(run_id)})


def require_no_run(instance: dg.DagsterInstance) -> None:
    """Raise RunUnderWay when a run has not ended; mark one whose process is gone as failed."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY))
    alive = _alive(records)
    if alive:
        shown = ", ".join(f"{run.run_id} ({run.job_name}, {run.status.value})" for run in alive)
        raise RunUnderWay(
            f"a run of the pipeline is under way: {shown}. Nothing was changed. Let it finish, or "
            "terminate it on the page Runs of `mom-pipeline ui`, and try again. One that never "
            f"began is removed by `DAGSTER_HOME={instance.root_directory} dagster run delete ID`"
        )
    for record in records:
        instance.report_run_failed(record.dagster_run, "Its process is gone.")


def is_under_way(instance: dg.DagsterInstance) -> bool:
    """Return whether a run has not ended and its process, if it has one yet, is there."""
    return bool(_alive(instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY))))


def _alive(records: Sequence[dg.RunRecord]) -> list[dg.DagsterRun]:
    return [record.dagster_run for record in records if not _is_gone(record.dagster_run)]


def _mark(run_id: str) -> str:
    """Return host, process and run: a retry inherits the tags of the run before."""
    pid = os.getpid()
    return f"{run_id} {socket.gethostname()} {pid} {_started(pid)}"


def _is_gone(run: dg.DagsterRun) -> bool:
    """Return whether the run recorded a process of this machine that no longer exists."""
    match run.tags.get(PROCESS_TAG, "").split():
        case [run_id, host, pid, started]:
            here = run_id == run.run_id and host == socket.gethostname()
            return here and _started(int(pid)) != started
    return False


def _started(pid: int) -> str:
    """Return when a process began, which distinguishes it from a later one of the same id."""
    try:
        # Field 22; the name of the program, in parentheses, may hold spaces.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return "gone" if Path("/proc/self").exists() else "unknown"
