"""A sensor that sees new, changed and late log files, and asks for the days that they touch."""

import json
from collections.abc import Collection
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.defs.days import content_hash
from mom_pipeline.defs.jobs import daily_update, range_tags
from mom_pipeline.defs.partitions import DAILY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.errors import LogFileError, WarehouseBusy
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import Settings


def touched_range(pending: Collection[date], newest: date, settings: Settings) -> tuple[date, date]:
    """First and last day that the files of some delivery days touch.

    The matrix as of a day holds everything delivered up to it, so a late file touches its own
    day and all later ones; with a window, only as long as its events can be in it, and as long
    as a model that saw them is evaluated.
    """
    last = newest
    if settings.matrix.window_days:
        reach = settings.matrix.window_days - 1 + settings.evaluation.horizon_days
        last = min(newest, max(pending) + timedelta(days=reach))
    return min(pending), last


@dg.sensor(
    job=daily_update,
    minimum_interval_seconds=30,
    description="New, changed or late log files: the days that they touch, in one run.",
)
def log_file_sensor(
    context: dg.SensorEvaluationContext, data_folder: DataFolder
) -> dg.SensorResult | dg.SkipReason:
    """Compare sizes and times with the last look, and where they differ the contents."""
    settings = data_folder.settings
    try:
        files = discover(settings.logs_dir).files
        seen = {f.source_file: [f.path.stat().st_size, f.path.stat().st_mtime_ns] for f in files}
        cursor = json.dumps(seen, sort_keys=True)
        if cursor == context.cursor:
            return dg.SkipReason("no log file changed since the last look")
        pending = pending_files(data_folder.warehouse)
    except (LogFileError, WarehouseBusy, OSError) as error:
        return dg.SkipReason(f"the log files could not be compared: {error}")
    known = set(DAILY.get_partition_keys())
    days = {file.day for file in pending if str(file.day) in known}
    if not days:
        beyond = sorted({str(file.day) for file in pending})
        note = f"; reload the definitions to take {', '.join(beyond)}" if beyond else ""
        return dg.SensorResult(skip_reason=f"the ledger holds every day{note}", cursor=cursor)
    newest = max(f.day for f in files if str(f.day) in known)
    first, last = touched_range(days, newest, settings)
    contents = [seen[file.source_file] + [file.source_file] for file in pending]
    request = dg.RunRequest(run_key=content_hash(contents), tags=range_tags(first, last))
    return dg.SensorResult(run_requests=[request], cursor=cursor)
