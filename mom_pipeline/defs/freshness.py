"""The state of every day: whether all of it is there, as logs, settings and code give it now.

`mom-pipeline update`, the nightly schedule and the sensor ask for the same days: `days_behind`.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.retention import is_expired
from mom_pipeline.logs.admission import held_days, removed_files
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.logfiles import Discovery, discover
from mom_pipeline.logs.refusals import Refusal, refusals
from mom_pipeline.settings import Settings, fingerprint
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.finished import finished_days, record_finished
from mom_pipeline.warehouse.matrix import state_fingerprints

Status = Literal[
    "fresh",
    "stale",
    "missing",
    "expired",
    "refused",
    "kept out",
    "removed",
    "waiting",
    "too early",
]
# Assets of every day that keep no arrays, or not on every day.
WITHOUT_ARRAYS = ("recommendations", "evaluation_metrics", "promotion", "report")
# Days without any file are computed as well, up to so many at a time.
_LONGEST_GAP = 31
# Days of one run.
_LONGEST_RUN = 28
BEHIND: tuple[Status, ...] = ("missing", "stale")
NOT_COMPUTABLE: tuple[Status, ...] = ("waiting", "too early")
# What a person has to decide on, or to repair.
NOTEWORTHY: tuple[Status, ...] = ("refused", "kept out", "removed", "waiting", "too early")


@dataclass(frozen=True)
class DayFreshness:
    """The state of one day, with the first reason against it."""

    day: date
    files: int
    mode: str
    status: Status
    reason: str


@dataclass(frozen=True)
class _Delivered:
    """What the warehouse says about the days: their fingerprints, what is wrong with them, and
    which assets have finished them.
    """

    fingerprints: dict[date, str]
    refused: dict[date, list[Refusal]]
    held: dict[date, str]
    removed: dict[date, list[str]]
    finished: dict[tuple[str, date], str]


def freshness(warehouse: Warehouse, state: DayState) -> list[DayFreshness]:
    """Return the state of every day that has log files, arrays or rows of a removed file."""
    discovery = discover(warehouse.settings.logs_dir)
    first, last = warehouse.settings.first_and_last_day()
    pending = {file.day for file in pending_files(warehouse) if first <= file.day <= last}
    days = {file.day for file in discovery.files} | set(state.artifacts.days("decomposition"))
    delivered = _delivered(warehouse, discovery, days)
    entries, n_files = [], Counter(file.day for file in discovery.files)
    for day in sorted(days | delivered.removed.keys()):
        late = min((d for d in pending if d <= day), default=None)
        outside = _outside(warehouse.settings, day, first, last)
        status, reason = outside or _status(state, day, delivered, late)
        entries.append(DayFreshness(day, n_files[day], _mode(state, day), status, reason))
    return entries


def days_behind(entries: Sequence[DayFreshness]) -> list[DayFreshness]:
    """Return the days from the first that is missing or stale to the last.

    A day between them is computed again; later ones are up to date and rest on the logs alone.
    """
    computable = [entry for entry in entries if entry.status not in NOT_COMPUTABLE]
    behind = [position for position, entry in enumerate(computable) if entry.status in BEHIND]
    return computable[behind[0] : behind[-1] + 1] if behind else []


def stretches(days: Sequence[DayFreshness], longest: int = _LONGEST_RUN) -> list[tuple[date, date]]:
    """Return the first and last day of each run: long gaps without any file are left out.

    longest: days of a run, four weeks where it writes arrays: all its days have all of theirs
    until it ends.
    """
    ends: list[tuple[date, date]] = []
    for entry in days:
        near = ends and (entry.day - ends[-1][1]).days <= _LONGEST_GAP
        if near and (entry.day - ends[-1][0]).days < longest:
            ends[-1] = ends[-1][0], entry.day
        else:
            ends.append((entry.day, entry.day))
    return ends


def _delivered(warehouse: Warehouse, discovery: Discovery, days: Collection[date]) -> _Delivered:
    if not warehouse.exists():
        return _Delivered({}, {}, {}, {}, {})
    there = {file.source_file for file in discovery.files}
    there |= {entry.name for entry in discovery.set_aside}
    with warehouse.reading() as connection:
        refused: dict[date, list[Refusal]] = {}
        for refusal in refusals(connection):
            if refusal.source_file in there:
                refused.setdefault(refusal.day, []).append(refusal)
        fingerprints = state_fingerprints(connection, warehouse.settings, days)
        return _Delivered(
            fingerprints,
            refused,
            held_days(connection),
            removed_files(connection, there),
            finished_days(connection),
        )


def _outside(settings: Settings, day: date, first: date, last: date) -> tuple[Status, str] | None:
    """Return what to say about a day that cannot be computed now."""
    if day > last:
        end = settings.pipeline.end_date
        if end and day.isoformat() > end:
            return "waiting", f"lies after pipeline.end_date = {end}; raise it to take the day in"
        return "waiting", f"the day has not come yet in {settings.logs.timezone}"
    if day < first:
        return "too early", f"lies before pipeline.start_date = {first}; lower it to take it in"
    return None


def _status(
    state: DayState, day: date, delivered: _Delivered, late: date | None
) -> tuple[Status, str]:
    gone = state.artifacts.version("decomposition", day) is None
    kept = state.settings.artifacts.retention_days
    if gone and not is_expired(state.artifacts, "decomposition", day, kept):
        return "missing", "not materialized yet"
    if late:
        return "stale", f"the log files of {late} are new, changed or read by other rules now"
    if gone:
        why = f"more than artifacts.retention_days = {kept} before the newest"
        return _decided(day, delivered) or ("expired", why)
    try:
        matrix = state.fitting("interaction_matrix", day, with_arrays=False)
        if matrix.parents["raw_logs"] != delivered.fingerprints.get(day, ""):
            return "stale", "the deliveries up to the day have changed"
        state.chosen(day)
        too_little = state.too_little(day)
        if not too_little:
            state.require_chain(day)
        _require_finished(state, day, delivered)
    except StaleArtifact as reason:
        return "stale", str(reason)
    return _decided(day, delivered) or ("fresh", too_little)


def made_from(state: DayState, day: date) -> str:
    """Return the fingerprint of the arrays that lists, metrics, version and page come from."""
    assets = ("decomposition", "user_personalization")
    return fingerprint(*(state.artifacts.version(asset, day) for asset in assets))


def note_finished(warehouse: Warehouse, state: DayState, asset: str, days: Sequence[date]) -> None:
    """Note that an asset without arrays has nothing left to do on some days."""
    with warehouse.connect() as connection:
        record_finished(connection, asset, {day: made_from(state, day) for day in days})


def _require_finished(state: DayState, day: date, delivered: _Delivered) -> None:
    present = made_from(state, day)
    for asset in WITHOUT_ARRAYS:
        if delivered.finished.get((asset, day)) != present:
            raise StaleArtifact(f"{asset} of {day} was not finished with the present model")


def _decided(day: date, delivered: _Delivered) -> tuple[Status, str] | None:
    """Return what a person should know about a day that is up to date."""
    if refused := delivered.refused.get(day):
        return "refused", "; ".join(one.reason for one in refused)
    if held := delivered.held.get(day):
        hint = f"`mom-pipeline accept {day}` takes it in, `mom-pipeline drop {day}` removes it"
        return "kept out", f"{held}. {hint}"
    if removed := delivered.removed.get(day):
        names = ", ".join(removed)
        hint = f"`mom-pipeline drop {day}` removes them"
        return "removed", f"no longer in the folder, the rows stay: {names}. {hint}"
    return None


def _mode(state: DayState, day: date) -> str:
    try:
        mode = state.fitting("m2_statistics", day, with_arrays=False).metadata["mode"]
    except StaleArtifact:
        return "–"
    return "full" if str(mode).startswith("full") else str(mode)
