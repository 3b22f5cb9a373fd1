"""The names under which the pipeline stands in a deployment: with a prefix beside others."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import dagster as dg

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
_PARTITION = "dagster/partition"


@dataclass(frozen=True)
class Names:
    """prefix: of asset keys, jobs, sensors, resource and pool; empty for none.

    group: of all assets; empty for those of the assets themselves.
    """

    prefix: tuple[str, ...] = ()
    group: str = ""

    def key(self, asset: str) -> dg.AssetKey:
        return dg.AssetKey([*self.prefix, asset])

    def of(self, name: str) -> str:
        """The name of a job, schedule, sensor or resource."""
        return "_".join([*self.prefix, name])

    @property
    def resource(self) -> str:
        return self.of("data_folder")

    @property
    def pool(self) -> str:
        """Steps take turns: a DuckDB file admits one process at a time."""
        return self.of("duckdb")


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
    days = run_days(tags)
    if days is None:
        return ""
    first, last = days
    return f"{first}" if first == last else f"{first} to {last}"
