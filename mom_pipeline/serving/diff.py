"""What differs between two versions of the model: settings, metrics, components and lists."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mom_pipeline.core.evaluation.stability import drift
from mom_pipeline.core.types import Array
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.rules import Rules
from mom_pipeline.serving.served_model import ServedModel

# Users whose lists are compared, spread over all of them; and those that are named.
_SAMPLED, _NAMED = 500, 5


@dataclass(frozen=True)
class ChangedList:
    """A user's list in both versions. kept: how many items both hold."""

    user: str
    kept: int
    added: tuple[str, ...]
    gone: tuple[str, ...]
    same: bool


@dataclass(frozen=True)
class ModelDiff:
    """What differs from one version to another: values of both."""

    versions: tuple[str, str]
    settings: dict[str, tuple[Any, Any]]
    metrics: dict[str, tuple[float | None, float | None]]
    users: tuple[int, int]
    items: tuple[int, int]
    # total variation of every component of the other version; 1 for a new one
    drift: tuple[float, ...]
    compared: int  # users of both whose lists were made
    same: int  # of these, whose lists are equal
    mean_kept: float  # the share of a list that the other one holds too
    changed: tuple[ChangedList, ...]  # those that differ most


def compare_versions(one: ServedModel, other: ServedModel, rules: Rules, n: int = 20) -> ModelDiff:
    """Compare two versions; lists of n items by some rules, of some users that both know."""
    facts = [
        {"code_version": m.code_version, "day": m.day, **m.settings}
        for m in (one.manifest, other.manifest)
    ]
    lists = _lists(one, other, rules, n)
    shares = [entry.kept / max(entry.kept + len(entry.gone), 1) for entry in lists]
    by_change = sorted(lists, key=lambda entry: (entry.kept, entry.user))
    return ModelDiff(
        versions=(one.manifest.version, other.manifest.version),
        settings={name: pair for name, pair in _both(*facts).items() if pair[0] != pair[1]},
        metrics=_both(one.manifest.metrics, other.manifest.metrics),
        users=(len(one.user_ids), len(other.user_ids)),
        items=(len(one.item_ids), len(other.item_ids)),
        drift=tuple(_drift(one, other).tolist()),
        compared=len(lists),
        same=sum(entry.same for entry in lists),
        mean_kept=float(np.mean(shares)) if shares else 1.0,
        changed=tuple(entry for entry in by_change if entry.added or entry.gone)[:_NAMED],
    )


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (one.get(name), other.get(name)) for name in sorted({*one, *other})}


def _drift(one: ServedModel, other: ServedModel) -> Array:
    """How far every component moved; items are compared by their ids."""
    there = [other.item_positions.get(str(item), -1) for item in one.item_ids]
    positions, O = np.array(there, dtype=np.int64), one.model.item_probs
    earlier = np.zeros((len(other.item_ids), O.shape[1]), dtype=O.dtype)
    earlier[positions[positions >= 0]] = O[positions >= 0]
    # Items that the other version does not have stand below, where it has nothing.
    return drift(other.model.item_probs, np.vstack([earlier, O[positions < 0]]))


def _lists(one: ServedModel, other: ServedModel, rules: Rules, n: int) -> list[ChangedList]:
    both = [user for user in map(str, one.user_ids) if user in other.user_positions]
    users = both[:: max(1, -(-len(both) // _SAMPLED))]
    before, after = (Recommender(model, rules).best_items(users, n) for model in (one, other))
    lists = []
    for user in before.keys() & after.keys():
        old, new = before[user], after[user]
        added = tuple(item for item in new if item not in old)
        gone = tuple(item for item in old if item not in new)
        lists.append(ChangedList(user, len(new) - len(added), added, gone, old == new))
    return lists
