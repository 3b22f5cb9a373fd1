"""The days: one partitions definition for all assets, so that a backfill is one run."""

from datetime import date, datetime, timedelta

import dagster as dg

from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import Settings, load_settings

# The first day when neither the settings nor a log file name one: that of the sample logs.
_DEFAULT_START = date(2024, 3, 1)
# Logs whose newest file is older than this are taken for complete: its day is the last one.
_COMPLETE_AFTER = timedelta(days=31)


def daily_partitions(settings: Settings, today: date) -> dg.DailyPartitionsDefinition:
    """One partition per delivery day; see `[pipeline]` of the settings for its ends."""
    days = [file.day for file in discover(settings.logs_dir).files]
    start = settings.pipeline.start_date or str(min(days, default=_DEFAULT_START))
    end = settings.pipeline.end_date
    if not end and days and max(days) + _COMPLETE_AFTER < today:
        end = str(max(days))
    # Dagster's end is exclusive.
    after = date.fromisoformat(end) + timedelta(days=1) if end else None
    return dg.DailyPartitionsDefinition(
        start_date=start, end_date=str(after) if after else None, timezone=settings.logs.timezone
    )


SETTINGS = load_settings()
DAILY = daily_partitions(SETTINGS, datetime.now(tz=SETTINGS.logs.zone).date())


def offset(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """The days from `first` to `last`, counted from a day; those before the start are left out."""
    return dg.TimeWindowPartitionMapping(
        start_offset=first, end_offset=last, allow_nonexistent_upstream_partitions=True
    )


YESTERDAY = offset(-1, -1)
