"""Which arrays stay: those of the last days, and of one day a month.

What the next day and the next evaluation start from, the moments, takes most of the room and is
kept for a few days only; of older ones the manifest stays, with all its figures. Matrix, model and
metrics are kept for `retention_days` and for the first day of every month, whichever day of it
that is; other days are computed again from the logs when somebody asks for them. An anchor stays
while a day of the last `retention_days` was made with it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

from mom_pipeline.artifacts.store import ArtifactStore

MOMENTS = ("m2_statistics", "whitening_matrix", "whitened_tensor", "user_personalization")
_ANCHOR = "anchor"


@dataclass(frozen=True)
class Removed:
    """How many artifacts are gone, and of how many the arrays alone."""

    days: int
    moments: int


def is_expired(store: ArtifactStore, asset: str, day: date, retention_days: int) -> bool:
    """Whether a day lies `retention_days` or more before an asset's newest (0: never)."""
    days = store.days(asset) if retention_days else []
    return bool(days) and day <= days[-1] - timedelta(days=retention_days)


def days_of_months(days: Collection[date]) -> set[date]:
    """The first of some days in every month."""
    first: dict[tuple[int, int], date] = {}
    for day in sorted(days):
        first.setdefault((day.year, day.month), day)
    return set(first.values())


def apply_retention(
    store: ArtifactStore, retention_days: int, moment_days: int, *, spared: Collection[date] = ()
) -> Removed:
    """Remove what is too old, except of the days spared (0 retention_days: keep all).

    moment_days: how many of the newest stored days keep the arrays of their moments.
    """
    if not retention_days:
        return Removed(0, 0)
    removed = moments = 0
    for asset in store.assets():
        if asset == _ANCHOR:
            continue
        days = store.days(asset)
        kept = days_of_months(days) | set(spared)
        kept |= {day for day in days if not is_expired(store, asset, day, retention_days)}
        if asset == "interaction_matrix":
            kept |= _whole_days(store, kept & set(days))
        for day in days:
            if day not in kept:
                removed += store.remove(asset, day)
            elif asset in MOMENTS and day not in days[-moment_days:] and day not in spared:
                moments += store.remove_arrays(asset, day)
    return Removed(removed + _remove_anchors(store, retention_days), moments)


def _whole_days(store: ArtifactStore, days: Collection[date]) -> set[date]:
    """The days whose matrices those of some days are stored as changes of."""
    stored = [store.describe("interaction_matrix", day).metadata for day in sorted(days)]
    return {date.fromisoformat(facts["whole_day"]) for facts in stored if "whole_day" in facts}


def _remove_anchors(store: ArtifactStore, retention_days: int) -> int:
    """Remove the anchors that no day needs any more; the newest stays in any case."""
    sums = [
        store.describe("m2_statistics", day)
        for day in store.days("m2_statistics")
        if not is_expired(store, "m2_statistics", day, retention_days)
    ]
    needed = {made.metadata.get("anchor_day") for made in sums}
    unneeded = [day for day in store.days(_ANCHOR)[:-1] if day.isoformat() not in needed]
    return sum(store.remove(_ANCHOR, day) for day in unneeded)
