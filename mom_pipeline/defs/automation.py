"""Jobs over all assets, and when they run."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg

from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.logs.logfiles import discover

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
    """Tags that make one run of the days from first to last."""
    return {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}
