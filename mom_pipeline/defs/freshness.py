"""Freshness of every day: whether its stored arrays are what logs, settings and code give now."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Literal

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.ledger import ledger_entries
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import state_fingerprint

Status = Literal["fresh", "stale", "missing", "expired"]


@dataclass(frozen=True)
class DayFreshness:
    """The state of one day, with the first reason against it."""

    day: date
    files: int
    mode: str
    status: Status
    reason: str


def freshness(warehouse: Warehouse, state: DayState) -> list[DayFreshness]:
    """Return the state of every day that has log files or arrays, in order."""
    files = discover(warehouse.settings.logs_dir).files
    pending = {file.day for file in pending_files(warehouse)}
    days = {file.day for file in files} | set(state.artifacts.days("decomposition"))
    fingerprints = _fingerprints(warehouse, days)
    entries = []
    for day in sorted(days):
        late = [d for d in pending if d <= day]
        status, reason = _status(state, day, fingerprints.get(day, ""), late)
        n_files = sum(file.day == day for file in files)
        entries.append(DayFreshness(day, n_files, _mode(state, day), status, reason))
    return entries


def _fingerprints(warehouse: Warehouse, days: Collection[date]) -> dict[date, str]:
    if not warehouse.exists():
        return {}
    with warehouse.reading() as connection:
        if not ledger_entries(connection):
            return {}
        return {day: state_fingerprint(connection, warehouse.settings, day) for day in days}


def _status(
    state: DayState, day: date, fingerprint: str, late: Collection[date]
) -> tuple[Status, str]:
    gone = state.artifacts.version("decomposition", day) is None
    kept = state.settings.artifacts.retention_days
    if gone and not state.artifacts.is_expired("decomposition", day, kept):
        return "missing", "not materialized yet"
    if late:
        return "stale", f"the log files of {min(late)} are new or changed"
    if gone:
        return "expired", f"more than artifacts.retention_days = {kept} before the newest"
    try:
        matrix = state.fitting("interaction_matrix", day, with_arrays=False)
        if matrix.parents["raw_logs"] != fingerprint:
            return "stale", "the deliveries up to the day have changed"
        state.require_chain(day)
    except StaleArtifact as reason:
        return "stale", str(reason)
    return "fresh", ""


def _mode(state: DayState, day: date) -> str:
    try:
        mode = state.fitting("m2_statistics", day, with_arrays=False).metadata["mode"]
    except StaleArtifact:
        return "–"
    return "full" if str(mode).startswith("full") else str(mode)
