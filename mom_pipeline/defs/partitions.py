"""The days of the pipeline as Dagster's partitions, and the tags of a run over some of them."""

import warnings
from collections.abc import Mapping
from datetime import date, timedelta

import dagster as dg

from mom_pipeline.datasets.source import Source
from mom_pipeline.logs.logfiles import discover, last_day
from mom_pipeline.settings import Settings

# Partitions of checks and freshness policies are what is used of these.
for category in (dg.BetaWarning, dg.PreviewWarning):
    warnings.filterwarnings("ignore", category=category)

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
_PARTITION = "dagster/partition"
# The first partition of a folder without any log: new files may be of earlier days.
_BEFORE_THE_FIRST_LOG = timedelta(days=365)


def daily_partitions(
    settings: Settings, source: Source | None = None
) -> dg.DailyPartitionsDefinition:
    """One partition per delivery day, from the first log on; a new day needs no reload."""
    _, today = settings.first_and_last_day()
    newest = last_day(settings, discover(settings.logs_dir).files)
    ended = newest < today and source is None
    end = settings.pipeline.end_date or (str(newest) if ended else "")
    return dg.DailyPartitionsDefinition(
        start_date=str(first_day(settings, source.start_date if source else "")),
        # Dagster's end is exclusive.
        end_date=str(date.fromisoformat(end) + timedelta(days=1)) if end else None,
        timezone=settings.logs.timezone,
        end_offset=1,
    )


def first_day(settings: Settings, declared: str = "") -> date:
    """The first partition. declared: by a source, whose days are not known without asking it."""
    if named := declared or settings.pipeline.start_date:
        return date.fromisoformat(named)
    before = settings.first_and_last_day()[1] - _BEFORE_THE_FIRST_LOG
    return min((file.day for file in discover(settings.logs_dir).files), default=before)


def offset(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """The days from `first` to `last`, counted from a day; those before the start do not count."""
    return dg.TimeWindowPartitionMapping(
        start_offset=first, end_offset=last, allow_nonexistent_upstream_partitions=True
    )


def range_tags(first: date, last: date) -> dict[str, str]:
    """The tags that make one run of the days from first to last."""
    return {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}


def run_days(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """The first and the last day of a run; None for one without partitions."""
    first = tags.get(RANGE_START) or tags.get(_PARTITION)
    last = tags.get(RANGE_END) or tags.get(_PARTITION)
    return (date.fromisoformat(first), date.fromisoformat(last)) if first and last else None


def days_in_words(tags: Mapping[str, str]) -> str:
    """The days of a run: "2024-03-01", "2024-03-01 to 2024-03-28", or "" for none."""
    return " to ".join(str(day) for day in sorted(set(run_days(tags) or ())))
