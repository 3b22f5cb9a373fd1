"""The days: one partitions definition for all assets, so that a backfill is one run.

The first day is a setting, which `import` and the first ingest write. The last one is today, so
that a file of today can be taken at once. Logs that ended long ago end with their own last day:
Dagster's pages plot the newest partitions, and count those that are missing.
"""

import warnings
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import Settings, load_settings

# Dagster is pinned to one version, so what is new there cannot change under this code. Here,
# because whatever uses it needs the days.
for category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=category)


# Logs whose newest day is older have ended.
_GOES_ON = timedelta(days=60)


def daily_partitions(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition per delivery day; see `[pipeline]` of the settings for its ends."""
    first, last = settings.first_and_last_day()
    end = settings.pipeline.end_date
    last_day = date.fromisoformat(end) if end else _end_of_history(settings, last)
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        # Dagster's end is exclusive.
        end_date=str(last_day + timedelta(days=1)) if last_day else None,
        timezone=settings.logs.timezone,
        end_offset=1,
    )


def _end_of_history(settings: Settings, today: date) -> date | None:
    """Return the newest day of logs that ended long ago; None for those that go on."""
    days = [file.day for file in discover(settings.logs_dir).files]
    newest = max([*days, *DayState(settings).artifacts.days("decomposition")], default=today)
    return newest if newest < today - _GOES_ON else None


SETTINGS = load_settings()
DAILY = daily_partitions(SETTINGS)


def offset(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """The days from `first` to `last`, counted from a day; those before the start are left out."""
    return dg.TimeWindowPartitionMapping(
        start_offset=first, end_offset=last, allow_nonexistent_upstream_partitions=True
    )


YESTERDAY = offset(-1, -1)
