"""Which arrays stay: those of the last days, and of one day a month.

Matrix, model and metrics are kept for `retention_days` and for the first day of every month,
whichever day of it that is; other days are computed again from the logs when somebody asks for
them. The moments of these days, which take most of the room, are kept as far as they fit into
`moment_megabytes`, the newest first, and in any case those of the last two days, which the next
day starts from, as does its decomposition. A day whose lists are in use or whose model is judged
next takes its pairs from a later one of the same anchor; where there is none, they stay. Of other
days the manifest stays, with all its figures. An anchor stays while moments that are kept, or such
a day, were made with it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta

from mom_pipeline.artifacts.store import ArtifactStore
from mom_pipeline.core.moments.pair_counts import PAIR_ARRAYS

MOMENTS = ("m2_statistics", "whitening_matrix", "whitened_tensor", "user_personalization")
_ANCHOR, _DECOMPOSITION = "anchor", "decomposition"
# The days whose moments stay, whatever they take: the newest, and the one that it started from.
_WHOLE_DAYS = 2
# What the model of a day ranks by, of its m2_statistics, where pairs come from a later day and
# where they do not.
_POPULARITY = ("item_users",)
_RANKED_BY = (*_POPULARITY, *PAIR_ARRAYS)
# What a model is, of its decomposition: without where the next day's starts from, and with fewer
# digits of O unless its lists are in use.
_OLD_MODEL = ("rounded_probs", "rounded_exponents", "weights", "lambdas")
_MODEL_IN_USE = ("item_probs", *_OLD_MODEL)


@dataclass(frozen=True)
class Removed:
    """How many artifacts are gone, and of how many the arrays alone."""

    days: int
    moments: int


def is_expired(store: ArtifactStore, asset: str, day: date, retention_days: int) -> bool:
    """Whether a day lies `retention_days` or more before an asset's newest (0: never)."""
    newest = store.newest(asset) if retention_days else None
    return newest is not None and day <= newest - timedelta(days=retention_days)


def days_of_months(days: Collection[date]) -> set[date]:
    """The first of some days in every month."""
    first: dict[tuple[int, int], date] = {}
    for day in sorted(days):
        first.setdefault((day.year, day.month), day)
    return set(first.values())


def apply_retention(
    store: ArtifactStore,
    retention_days: int,
    ranking: Collection[date],
    moment_bytes: int,
    *,
    listed: date | None = None,
    spared: Collection[date] = (),
) -> Removed:
    """Remove what is too old, except of the days spared (0 retention_days: keep all).

    ranking: the days whose models are asked for lists.  listed: that of the lists in use.
    moment_bytes: what the moments of all days may take.
    """
    if not retention_days:
        return Removed(0, 0)
    removed = 0
    for asset in store.assets():
        if asset == _ANCHOR:
            continue
        days = store.days(asset)
        kept = days_of_months(days) | set(spared)
        kept |= {day for day in days if not is_expired(store, asset, day, retention_days)}
        if asset == "interaction_matrix":
            kept |= _whole_days(store, kept & set(days))
        removed += sum(store.remove(asset, day) for day in days if day not in kept)
    whole = {*_days_of_moments(store, moment_bytes), *spared}
    removed += _remove_anchors(store, whole | set(ranking))
    kept_arrays = _kept_for_ranking(store, whole, ranking)
    moments = 0
    for asset in MOMENTS:
        for day in store.days(asset):
            if day not in whole:
                own = kept_arrays.get(day, ()) if asset == MOMENTS[0] else ()
                moments += store.remove_arrays(asset, day, kept=own)
    for day in store.days(_DECOMPOSITION):
        if day not in whole:
            kept_model = _MODEL_IN_USE if day == listed else _OLD_MODEL
            store.remove_arrays(_DECOMPOSITION, day, kept=kept_model)
    return Removed(removed, moments)


def _days_of_moments(store: ArtifactStore, most_bytes: int) -> list[date]:
    """The days that keep their moments, the newest first: two, and all that fit."""
    days, taken = sorted(store.days(MOMENTS[0]), reverse=True), 0
    for position, day in enumerate(days):
        taken += sum(store.size(asset, day) for asset in MOMENTS)
        if position >= _WHOLE_DAYS and taken > most_bytes:
            return days[:position]
    return days


def _kept_for_ranking(
    store: ArtifactStore, whole: Collection[date], ranking: Collection[date]
) -> dict[date, tuple[str, ...]]:
    """What the days that rank keep of their moments: pairs, where no later day has them."""
    kept: dict[date, tuple[str, ...]] = {}
    with_pairs: set[str] = set()
    stored = {day for day in store.days(MOMENTS[0]) if day in whole or day in ranking}
    for day in sorted(stored, reverse=True):
        anchor = str(store.describe(MOMENTS[0], day).metadata.get("anchor_day"))
        if day not in whole:
            kept[day] = _POPULARITY if anchor in with_pairs else _RANKED_BY
        with_pairs.add(anchor)
    return kept


def _whole_days(store: ArtifactStore, days: Collection[date]) -> set[date]:
    """The days whose matrices those of some days are stored as changes of."""
    stored = [store.describe("interaction_matrix", day).metadata for day in sorted(days)]
    return {date.fromisoformat(facts["whole_day"]) for facts in stored if "whole_day" in facts}


def _remove_anchors(store: ArtifactStore, days: Collection[date]) -> int:
    """Remove the anchors that the moments of none of the days need; the newest stays anyway."""
    stored = [day for day in store.days(MOMENTS[0]) if day in days]
    needed = {store.describe(MOMENTS[0], day).metadata.get("anchor_day") for day in stored}
    unneeded = [day for day in store.days(_ANCHOR)[:-1] if day.isoformat() not in needed]
    return sum(store.remove(_ANCHOR, day) for day in unneeded)
