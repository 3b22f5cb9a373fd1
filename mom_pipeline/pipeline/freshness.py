"""The state of every day, by one function over the ledger and the list of files."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from mom_pipeline.logs.decisions import Refusal, removed_files, standing_refusals
from mom_pipeline.logs.gate import excluded_days
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.logfiles import Discovery, discover, last_day
from mom_pipeline.pipeline.days import INPUTS, LOGS, TOO_LITTLE, Days
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.materializations import RunRecord, runs
from mom_pipeline.warehouse.matrix import logs_fingerprints

Status = Literal["fresh", "stale", "missing", "excluded", "failed"]
# Days without any file are computed as well, up to so many at a time.
_LONGEST_GAP = 31
# Days of one run: all of them keep all their arrays until it ends.
_LONGEST_RUN = 28


@dataclass(frozen=True)
class DayStatus:
    """The state of one day."""

    day: date
    files: int
    mode: str  # how its moments came about
    status: Status
    reason: str = ""
    behind: bool = False  # an update computes it
    noteworthy: bool = False  # a person should look at it


_Verdict = tuple[Status, str, bool, bool]  # as the fields of `DayStatus` from `status` on
_NONE = "–"


def day_statuses(days: Days, unread: Collection[date] = ()) -> list[DayStatus]:
    """The state of every day with log files, results, or rows of a removed file or of `unread`."""
    settings, discovery = days.settings, discover(days.settings.logs_dir)
    first, last = settings.first_and_last_day()[0], last_day(settings, discovery.files)
    last = max([last, *unread])
    pending = {*unread, *(file.day for file in pending_files(days.warehouse))}
    pending = {day for day in pending if first <= day <= last}
    counts = Counter(file.day for file in discovery.files)
    known = counts.keys() | set(days.computed()) | set(unread)
    logs = _Logs.read(days, discovery, known)
    entries = []
    for day in sorted(known | logs.removed.keys()):
        late = min((d for d in pending if d <= day), default=None)
        behind = _behind(days, day, logs, late, known)
        outside = _outside(settings, day, first, last)
        if day in logs.removed and not behind:
            outside = None  # its rows stay, and so does what was made of them
        status = outside or behind or _computed(days, day, logs)
        entries.append(DayStatus(day, counts[day], _mode(days, day), *status))
    return entries


def days_behind(entries: Sequence[DayStatus]) -> list[DayStatus]:
    """The days from the first that is behind to the last; those between are computed again."""
    inside = [entry for entry in entries if entry.behind or entry.mode != _NONE]
    behind = [position for position, entry in enumerate(inside) if entry.behind]
    return inside[behind[0] : behind[-1] + 1] if behind else []


def stretches(days: Sequence[DayStatus]) -> list[tuple[date, date]]:
    """The first and last day of each run: long gaps without any file are skipped."""
    ends: list[tuple[date, date]] = []
    for entry in days:
        near = ends and (entry.day - ends[-1][1]).days <= _LONGEST_GAP
        if near and (entry.day - ends[-1][0]).days < _LONGEST_RUN:
            ends[-1] = ends[-1][0], entry.day
        else:
            ends.append((entry.day, entry.day))
    return ends


@dataclass(frozen=True)
class _Logs:
    """What the warehouse says about the deliveries and the runs."""

    fingerprints: Mapping[date, str] = field(default_factory=dict)
    refusals: Sequence[Refusal] = ()
    excluded: Mapping[date, str] = field(default_factory=dict)
    removed: Mapping[date, Sequence[str]] = field(default_factory=dict)
    runs: Sequence[RunRecord] = ()

    @classmethod
    def read(cls, days: Days, discovery: Discovery, known: Collection[date]) -> "_Logs":
        if not days.warehouse.exists():
            return cls()
        there = {file.source_file for file in discovery.files}
        there |= {entry.name for entry in discovery.set_aside}
        with days.warehouse.reading() as connection:
            return cls(
                logs_fingerprints(connection, known),
                standing_refusals(connection, days.settings),
                excluded_days(connection),
                removed_files(connection, there),
                runs(connection),
            )


def _outside(settings: Settings, day: date, first: date, last: date) -> _Verdict | None:
    """A day that cannot be computed now."""
    end, reason = settings.pipeline.end_date, ""
    if day > last and end and day.isoformat() > end:
        reason = f"lies after pipeline.end_date = {end}; raise it to take the day in"
    elif last < day <= settings.first_and_last_day()[1]:
        reason = f"its file is gone, and the logs end on {last}"
    elif day > last:
        reason = f"the day has not come yet in {settings.logs.timezone}"
    elif day < first:
        reason = f"lies before pipeline.start_date = {first}; lower it to take it in"
    return ("excluded", reason, False, True) if reason else None


def _behind(
    days: Days, day: date, logs: _Logs, late: date | None, known: set[date]
) -> _Verdict | None:
    """A day that an update computes; None for one that is up to date."""
    missing = next((asset for asset in INPUTS if (asset, day) not in days.made), "")
    if missing:
        run = next((r for r in reversed(logs.runs) if r.first <= day <= r.last), None)
        if run is not None and run.failure != "":
            return "failed", run.failure or f"run {run.run_id} was killed, or goes on", True, True
        begun = ("raw_logs", day) in days.made
        return "missing", f"there is no {missing} of it" if begun else "", True, False
    if late:
        return "stale", f"the log files of {late} are new or changed", True, False
    if days.made["interaction_matrix", day].inputs.get(LOGS) != logs.fingerprints[day]:
        return "stale", "the deliveries up to the day have changed", True, False
    return (
        (_unsound_or_stale(days, day) or _unevaluated(days, day, known))
        if days.is_kept(day)
        else None
    )


def _unevaluated(days: Days, day: date, known: set[date]) -> _Verdict | None:
    """A day whose evaluation is not of the model that it would be of now, as after a `start`."""
    settings = days.settings
    first, until = settings.first_and_last_day()[0], timedelta(settings.evaluation.horizon_days)
    model_day = max((other for other in known if first <= other <= day - until), default=None)
    if model_day is None:
        return None
    model = days.made.get(("decomposition", model_day))
    evaluated = days.made["evaluation_metrics", day].inputs.get("model")
    if model is not None and model.version == evaluated:
        return None
    status: Status = "stale" if model else "fresh"  # as `start` leaves it, until that day is there
    return status, f"the model of {model_day} is not evaluated on it yet", True, False


def _unsound_or_stale(days: Days, day: date) -> _Verdict | None:
    """An asset of a day that did not pass its checks, or is not up to date."""
    for asset in INPUTS:
        made = days.made[asset, day]
        if not made.sound and TOO_LITTLE not in made.facts:
            return "failed", f"{asset} did not pass its checks", True, True
        if days.lacks_arrays(asset, day):
            return "stale", f"the arrays of {asset} are gone", True, False
        if reason := days.staleness(asset, day):
            return "stale", reason, True, False
    return None


def _computed(days: Days, day: date, logs: _Logs) -> _Verdict:
    """What a person should know about a day that is up to date."""
    own = [one for one in logs.refusals if one.delivery_day == day]
    if refused := [one.reason for one in own if not one.dropped]:
        return "failed", f"a file was refused: {refused[-1]}", False, True
    if excluded := logs.excluded.get(day):
        hint = f"`mom-pipeline accept {day}` takes it in, `mom-pipeline drop {day}` removes it"
        return "excluded", f"{excluded}. {hint}", False, True
    if own:
        return "excluded", own[-1].reason, False, False
    if removed := logs.removed.get(day):
        names = ", ".join(removed)
        words = f"no longer in the folder, the rows stay: {names}. `mom-pipeline drop {day}`"
        return "fresh", f"{words} removes them", False, True
    return "fresh", days.made["decomposition", day].facts.get(TOO_LITTLE, ""), False, False


def _mode(days: Days, day: date) -> str:
    made = days.made.get(("m2_statistics", day))
    mode = str(made.facts.get("mode", _NONE)) if made else _NONE
    return "full" if mode.startswith("full") else mode
