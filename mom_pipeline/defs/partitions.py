"""The days of the pipeline as Dagster's partitions: one for each delivery day, today included."""

import warnings
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import Settings

# Partitions of checks and freshness policies are what is used of these.
for category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=category)

# Logs whose newest day is older have ended: their last partition is that day.
_GOES_ON = timedelta(days=60)
# The first partition of a folder without any log: new files may be of earlier days.
_BEFORE_THE_FIRST_LOG = timedelta(days=365)


def daily_partitions(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition per delivery day, from the first log on; a new day needs no reload."""
    _, today = settings.first_and_last_day()
    logs = [file.day for file in discover(settings.logs_dir).files]
    first = settings.pipeline.start_date or min(logs, default=today - _BEFORE_THE_FIRST_LOG)
    ended = logs and max(logs) < today - _GOES_ON
    end = settings.pipeline.end_date or (str(max(logs)) if ended else "")
    return dg.DailyPartitionsDefinition(
        start_date=str(first),
        # Dagster's end is exclusive.
        end_date=str(date.fromisoformat(end) + timedelta(days=1)) if end else None,
        timezone=settings.logs.timezone,
        end_offset=1,
    )


def offset(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """The days from `first` to `last`, counted from a day; those before the start do not count."""
    return dg.TimeWindowPartitionMapping(
        start_offset=first, end_offset=last, allow_nonexistent_upstream_partitions=True
    )
