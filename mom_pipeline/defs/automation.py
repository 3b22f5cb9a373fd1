"""Jobs over all assets, and what starts them: schedules, and a sensor on the log files."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg

from mom_pipeline.defs.days import content_hash
from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.errors import LogFileError, WarehouseBusy
from mom_pipeline.logs.delivery import pending_files
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.settings import Settings

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
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

daily_schedule = dg.build_schedule_from_partitioned_job(
    daily_update,
    name="daily_update_schedule",
    description="Each night, the day that has just ended.",
    hour_of_day=3,
)


@dg.schedule(job=full_rebuild, cron_schedule="0 5 * * 0", execution_timezone=DAILY.timezone)
def weekly_rebuild_schedule(
    context: dg.ScheduleEvaluationContext, data_folder: DataFolder
) -> dg.RunRequest | dg.SkipReason:
    """Each Sunday, the newest day that has logs."""
    return _newest_day(context, data_folder, FULL_CONFIG)


@dg.schedule(job=comparison_job, cron_schedule="0 6 * * 0", execution_timezone=DAILY.timezone)
def weekly_comparison_schedule(
    context: dg.ScheduleEvaluationContext, data_folder: DataFolder
) -> dg.RunRequest | dg.SkipReason:
    """Each Sunday after the rebuild, the newest day that has logs."""
    return _newest_day(context, data_folder, {})


def _newest_day(
    context: dg.ScheduleEvaluationContext, data_folder: DataFolder, run_config: Mapping[str, Any]
) -> dg.RunRequest | dg.SkipReason:
    days = {str(file.day) for file in discover(data_folder.settings.logs_dir).files}
    present = days & set(DAILY.get_partition_keys(current_time=context.scheduled_execution_time))
    if not present:
        return dg.SkipReason(f"no log file in {data_folder.settings.logs_dir} yet")
    return dg.RunRequest(partition_key=max(present), run_config=dict(run_config))


def range_tags(first: date, last: date) -> dict[str, str]:
    """Return the tags that make one run of the days from first to last."""
    return {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}


@dg.sensor(
    job=daily_update,
    minimum_interval_seconds=30,
    description="New, changed or late log files: the days that they touch, in one run.",
)
def log_file_sensor(
    context: dg.SensorEvaluationContext, data_folder: DataFolder
) -> dg.SensorResult | dg.SkipReason:
    """Compare sizes and times with the cursor and, where they differ, contents with the ledger."""
    settings = data_folder.settings
    try:
        files = discover(settings.logs_dir).files
        stats = {f.source_file: _size_and_time(f) for f in files}
        cursor = json.dumps(stats, sort_keys=True)
        if cursor == context.cursor:
            return dg.SkipReason("no log file changed since the last look")
        pending = pending_files(data_folder.warehouse)
    except (LogFileError, WarehouseBusy, OSError) as error:
        return dg.SkipReason(f"the log files could not be compared: {error}")
    days = _partition_days(pending)
    if not days:
        return dg.SensorResult(skip_reason=_nothing_to_run(pending), cursor=cursor)
    first, last = touched_range(days, max(_partition_days(files)), settings)
    contents = [[*stats[file.source_file], file.source_file] for file in pending]
    request = dg.RunRequest(run_key=content_hash(contents), tags=range_tags(first, last))
    return dg.SensorResult(run_requests=[request], cursor=cursor)


def _size_and_time(file: LogFile) -> list[int]:
    stat = file.path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _partition_days(files: Sequence[LogFile]) -> set[date]:
    """Return the delivery days of some files, as far as these are partitions."""
    known = set(DAILY.get_partition_keys())
    return {file.day for file in files if str(file.day) in known}


def _nothing_to_run(pending: Sequence[LogFile]) -> str:
    beyond = ", ".join(sorted({str(file.day) for file in pending}))
    note = f"; reload the definitions to take {beyond}" if beyond else ""
    return f"the ledger holds every day{note}"


def touched_range(pending: Collection[date], newest: date, settings: Settings) -> tuple[date, date]:
    """Return the first and the last day that the files of some delivery days touch.

    The matrix as of a day holds everything delivered up to it, so a late file touches its own
    day and all later ones; with a window, only as long as its events can be in it, and as long
    as a model that saw them is evaluated.
    """
    last = newest
    if settings.matrix.window_days:
        reach = settings.matrix.window_days - 1 + settings.evaluation.horizon_days
        last = min(newest, max(pending) + timedelta(days=reach))
    return min(pending), last
