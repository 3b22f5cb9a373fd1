"""The tags of a run: its days, and, for whoever reads the page Runs, what came of it."""

from collections.abc import Mapping
from datetime import date

from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import metrics_until

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
_PARTITION = "dagster/partition"
# The person who typed a command sees that it failed, and decides; a daemon does not run it again.
NOT_RETRIED = {"dagster/max_retries": "0"}


def range_tags(first: date, last: date) -> dict[str, str]:
    """Return the tags that make one run of the days from first to last."""
    return {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}


def days_tag(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the days of a run in words: "2024-03-01", or "2024-03-01 to 2024-03-28"."""
    days = run_days(tags)
    if days is None:
        return {}
    first, last = days
    return {"days": f"{first}" if first == last else f"{first} to {last}"}


def outcome_tags(warehouse: Warehouse, tags: Mapping[str, str]) -> dict[str, str]:
    """Return the model in use, and the newest recall that the days of a run brought."""
    outcome = {}
    if model := ModelRegistry(warehouse.settings.models_dir).champion_version():
        outcome["model"] = model
    days = run_days(tags)
    if days is None or not warehouse.exists():
        return outcome
    with warehouse.reading() as connection:
        rows = [row for row in metrics_until(connection, days[1]) if row.day >= days[0]]
    newest = [r for r in rows if r.day == rows[-1].day and r.ranking != "popularity"]
    if newest:
        k = nearest_cutoff([row.cutoff for row in newest])
        (recall,) = (row.recall for row in newest if row.cutoff == k)
        outcome["recall"] = f"{recall:.4f}"
    return outcome


def run_days(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """Return the first and the last day of a run; None for one without partitions."""
    first = tags.get(RANGE_START) or tags.get(_PARTITION)
    last = tags.get(RANGE_END) or tags.get(_PARTITION)
    return (date.fromisoformat(first), date.fromisoformat(last)) if first and last else None
