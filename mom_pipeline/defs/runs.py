"""Runs that are under way, as distinct from those whose process was killed.

Dagster records that a run has started and that it has ended. A killed run never ends in its
records, so every run also records its process. Who writes to the data folder is known by its lock
(`artifacts.writer`); these records are for the pages and for the sensor.
"""

import os
import socket
import time
from datetime import date
from pathlib import Path

import dagster as dg

from mom_pipeline.dagster_storage import EventLog
from mom_pipeline.defs.run_tags import run_days

# The prefix is Dagster's for tags that its pages do not show.
PROCESS_TAG = ".dagster/mom_process"
# A run that has not recorded its process after so long never will.
SECONDS_TO_START = 300
_BEGUN = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def process_tag(run_id: str) -> dict[str, str]:
    """Return the tag that names this process as that of a run."""
    return {PROCESS_TAG: _mark(run_id)}


def close_dead_runs(instance: dg.DagsterInstance) -> None:
    """Mark the runs whose process is gone as failed."""
    for record in instance.get_run_records(dg.RunsFilter(statuses=_BEGUN)):
        if _is_gone(record):
            instance.report_run_failed(record.dagster_run, "Its process is gone.")


def is_under_way(instance: dg.DagsterInstance) -> bool:
    """Return whether a run waits in the queue, or has begun and its process is there."""
    queued = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])
    if instance.get_runs_count(queued):
        return True
    begun = instance.get_run_records(dg.RunsFilter(statuses=_BEGUN))
    return not all(_is_gone(record) for record in begun)


def remove_old_logs(instance: dg.DagsterInstance, oldest: date) -> int:
    """Remove the logs of runs of days before `oldest` alone; returns how many there were.

    What a run made stays on record, with its metadata and checks; the log of a run that failed
    stays too.
    """
    events, removed = instance.event_log_storage, 0
    if not isinstance(events, EventLog):
        return 0
    for run_id in events.get_all_run_ids():
        run = instance.get_run_by_id(run_id)
        days = run_days(run.tags) if run and run.is_success else None
        if days is not None and days[1] < oldest:
            events.remove_log(run_id)
            removed += 1
    return removed


def _mark(run_id: str) -> str:
    """Return host, process and run: a retry inherits the tags of the run before."""
    pid = os.getpid()
    return f"{run_id} {socket.gethostname()} {pid} {_started(pid)}"


def _is_gone(record: dg.RunRecord) -> bool:
    """Return whether the process of a run no longer exists, or never came to be."""
    run = record.dagster_run
    match run.tags.get(PROCESS_TAG, "").split():
        case [run_id, host, pid, started] if run_id == run.run_id:
            return host == socket.gethostname() and _started(int(pid)) != started
    return time.time() - record.create_timestamp.timestamp() > SECONDS_TO_START


def _started(pid: int) -> str:
    """Return when a process began, which distinguishes it from a later one of the same id."""
    try:
        # Field 22; the name of the program, in parentheses, may hold spaces.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return "gone" if Path("/proc/self").exists() else "unknown"
