"""Jobs over all assets, and what starts them: schedules, and a sensor on the log files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.writer import writer_of
from mom_pipeline.defs.days import content_hash
from mom_pipeline.defs.freshness import DayFreshness, days_behind, freshness, stretches
from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.defs.run_tags import range_tags
from mom_pipeline.defs.runs import is_under_way
from mom_pipeline.errors import LogFileError, WarehouseBusy
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import SETTINGS_FILE
from mom_pipeline.settings.writing import declare_first_day

# Runs of the same days, while nothing changes.
MAX_ATTEMPTS = 3
FULL_CONFIG: Mapping[str, Any] = {"ops": {"m2_statistics": {"config": {"full": True}}}}

COMPARISON = dg.AssetSelection.assets("model_comparison")
EVERY_DAY = dg.AssetSelection.all() - COMPARISON

daily_update = dg.define_asset_job(
    "daily_update",
    EVERY_DAY,
    description="Every asset of a day, or of a range of days in one run.",
)

full_rebuild = dg.define_asset_job(
    "full_rebuild",
    EVERY_DAY,
    config=dict(FULL_CONFIG),
    description="Every asset of a day, its moments from all users: a fresh basis.",
)

comparison_job = dg.define_asset_job(
    "comparison",
    COMPARISON,
    description="The method beside its rivals: minutes, and so not a part of every day.",
)

leaf_sensor = dg.AutomationConditionSensorDefinition(
    "leaf_sensor",
    target=dg.AssetSelection.assets("report", "model_comparison"),
    description="Pages of recent days whose metrics are newer, and the comparison each Sunday.",
)


@dg.schedule(job=daily_update, cron_schedule="0 3 * * *", execution_timezone=DAILY.timezone)
def daily_update_schedule(
    context: dg.ScheduleEvaluationContext, data_folder: DataFolder
) -> list[dg.RunRequest] | dg.SkipReason:
    """Each night, every day that is missing or stale, as `mom-pipeline update` does."""
    behind = days_behind(freshness(data_folder.warehouse, data_folder.state))
    if not behind:
        return dg.SkipReason("no day is missing or stale")
    return [dg.RunRequest(tags=range_tags(*ends)) for ends in stretches(behind)]


@dg.schedule(job=full_rebuild, cron_schedule="0 5 * * 0", execution_timezone=DAILY.timezone)
def weekly_rebuild_schedule(
    context: dg.ScheduleEvaluationContext, data_folder: DataFolder
) -> dg.RunRequest | dg.SkipReason:
    """Each Sunday, the newest day that has logs."""
    days = {str(file.day) for file in discover(data_folder.settings.logs_dir).files}
    present = days & set(DAILY.get_partition_keys(current_time=context.scheduled_execution_time))
    if not present:
        return dg.SkipReason(f"no log file in {data_folder.settings.logs_dir} yet")
    return dg.RunRequest(partition_key=max(present), run_config=dict(FULL_CONFIG))


@dataclass(frozen=True)
class _Look:
    """What the sensor saw and asked for last, kept as its cursor.

    seen: hash of logs folder, settings, day and warehouse.  asked: hash of the days asked for.
    settled: nothing was left to ask for.
    """

    seen: str = ""
    asked: str = ""
    attempts: int = 0
    settled: bool = False

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "_Look":
        try:
            return cls(**json.loads(cursor or "{}"))
        except (TypeError, ValueError):  # of an earlier version
            return cls()

    def as_cursor(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dg.sensor(
    job=daily_update,
    minimum_interval_seconds=30,
    description="New, changed or late log files: all days that are behind, in one run.",
)
def log_file_sensor(
    context: dg.SensorEvaluationContext, data_folder: DataFolder
) -> dg.SensorResult | dg.SkipReason:
    """Look for what has changed, and ask for the days that are behind until these are fresh.

    Nothing depends on when a file was noticed: the days are those of `mom-pipeline update`. A
    run that fails is asked for again, at most `MAX_ATTEMPTS` times while nothing changes.
    """
    last = _Look.from_cursor(context.cursor)
    try:
        files = _files_and_day(data_folder)
        # `accept` and `drop` change the warehouse alone. So do runs, also those that fail, which
        # must not make the days that are asked for look like others.
        seen = content_hash(files, _size_and_time(data_folder.settings.warehouse_path))
        if last.settled and seen == last.seen:
            return dg.SkipReason("nothing has changed since the last look")
        if writer := _writer(context, data_folder):
            return dg.SkipReason(f"{writer}; its days are looked at when it has ended")
        behind = days_behind(freshness(data_folder.warehouse, data_folder.state))
    except (LogFileError, WarehouseBusy, OSError) as error:
        return dg.SkipReason(f"the log files could not be compared: {error}")
    if not behind:
        look = _Look(seen, settled=True)
        return dg.SensorResult(skip_reason="no day is missing or stale", cursor=look.as_cursor())
    asked = content_hash(files, *behind)
    look = _Look(seen, asked, last.attempts + 1 if asked == last.asked else 1)
    if hindrance := _hindrance(behind, look.attempts):
        return dg.SkipReason(hindrance)
    requests = [
        dg.RunRequest(run_key=content_hash(asked, look.attempts, ends), tags=range_tags(*ends))
        for ends in stretches(behind)
    ]
    return dg.SensorResult(run_requests=requests, cursor=look.as_cursor())


def _writer(context: dg.SensorEvaluationContext, data_folder: DataFolder) -> str:
    """Return who writes to the data folder, or is about to; "" for nobody."""
    if writer := writer_of(data_folder.settings):
        return f"{writer} writes to the data folder"
    return "a run is under way" if is_under_way(context.instance) else ""


def _hindrance(behind: Sequence[DayFreshness], attempts: int) -> str:
    """Why days that are behind are not asked for; "" when they are."""
    first, start = behind[0].day, DAILY.start.date()
    if first < start:
        return (
            f"{first} lies before the first day of these definitions, {start}; the daemon loads "
            "them again after a minute"
        )
    if (newest := str(behind[-1].day)) not in DAILY.get_partition_keys():
        return (
            f"{newest} lies after the last day of these definitions; the daemon loads them again "
            "after a minute"
        )
    if attempts > MAX_ATTEMPTS:
        return (
            f"the run of {first} to {behind[-1].day} was asked for {MAX_ATTEMPTS} times and "
            "failed; look at the page Runs. It is asked for again when a file changes, or start "
            "it by hand"
        )
    return ""


def _files_and_day(data_folder: DataFolder) -> str:
    """Hash of the logs folder, the settings and the day: a file may wait for its own."""
    settings = data_folder.settings
    files = discover(settings.logs_dir).files
    declare_first_day(settings, [file.day for file in files])
    paths = [settings.data_dir / SETTINGS_FILE]
    paths += [path for file in files for path in (file.path, file.checksum_path)]
    return content_hash(settings.first_and_last_day()[1], [_size_and_time(path) for path in paths])


def _size_and_time(path: Path) -> tuple[str, int, int]:
    """Name, size and time of the last change; a change of the contents always sets the latter."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return str(path), 0, 0
    return str(path), status.st_size, status.st_ctime_ns
