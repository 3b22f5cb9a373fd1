"""The days: one partitions definition for all assets, so that a backfill is one run.

Nothing is read from the logs folder here. The first day is a setting, which `import` and the
first ingest write; the last one is today, so that a file of today can be taken at once.
"""

import warnings
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.settings import Settings, load_settings

# Dagster is pinned to one version, so what is new there cannot change under this code. Here,
# because whatever uses it needs the days.
for category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=category)


def daily_partitions(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition per delivery day; see `[pipeline]` of the settings for its ends."""
    end = settings.pipeline.end_date
    # Dagster's end is exclusive.
    after = date.fromisoformat(end) + timedelta(days=1) if end else None
    return dg.DailyPartitionsDefinition(
        start_date=settings.first_and_last_day()[0].isoformat(),
        end_date=str(after) if after else None,
        timezone=settings.logs.timezone,
        end_offset=1,
    )


SETTINGS = load_settings()
DAILY = daily_partitions(SETTINGS)


def offset(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """The days from `first` to `last`, counted from a day; those before the start are left out."""
    return dg.TimeWindowPartitionMapping(
        start_offset=first, end_offset=last, allow_nonexistent_upstream_partitions=True
    )


YESTERDAY = offset(-1, -1)
