"""The first part of the page: people, all lists together, what differs from the model in use.

Lists are those of the table, as of the day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.types import Array
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection
from mom_pipeline.warehouse.recommendations import (
    latest_items,
    list_of,
    listed_counts,
    lists_of,
    typical_users,
)

_PEOPLE, _SHOWN_HISTORY, _SHOWN_LIST = 5, 8, 8
_HEAD = 0.1
# Users whose lists are compared with those of the model in use.
_COMPARED = 100


@dataclass(frozen=True)
class Person:
    """A user, what they took last and their list, as they are shown; the newest, the best first."""

    user: str
    history: tuple[str, ...]
    items: tuple[str, ...]


@dataclass(frozen=True)
class ListUse:
    """All lists together.

    coverage: share of the items that is in any list.
    head_listed, head_taken: share of the entries of lists, and of what people took, that goes to
    the tenth of the items that most people took.
    """

    coverage: float
    head_listed: float
    head_taken: float


@dataclass(frozen=True)
class Change:
    """What differs from the model in use.

    version, day, since, reason, by: of the model in use, as the registry has them.
    kept: mean share of its lists that the lists of the day hold too; None where it is the day's
    own model, or nobody is in both.  compared: of how many users.
    """

    version: str
    day: str
    since: str
    reason: str
    by: str
    kept: float | None
    compared: int


def people_of(connection: Connection, day: date, catalogue: Catalogue) -> tuple[Person, ...]:
    """Five people, the same for the same users: neither the first nor the most active."""

    def labels(items: Sequence[str]) -> tuple[str, ...]:
        return tuple(catalogue.label(item) for item in items)

    return tuple(
        Person(
            user,
            labels(latest_items(connection, user, day, _SHOWN_HISTORY)),
            labels([item for _, item, _ in list_of(connection, user, day)[:_SHOWN_LIST]]),
        )
        for user in typical_users(connection, day, _PEOPLE)
    )


def list_use(connection: Connection, day: date, item_users: Array) -> ListUse | None:
    """How the lists use the catalogue; None where the lists of a day are no longer kept.

    item_users: (D,), how many users took each item.
    """
    positions, counts = listed_counts(connection, day)
    if not len(positions):
        return None
    taken = np.flatnonzero(item_users > 0)
    order = taken[np.argsort(-item_users[taken], kind="stable")]
    head = order[: max(1, round(_HEAD * len(order)))]
    return ListUse(
        coverage=len(positions) / max(len(taken), 1),
        head_listed=float(counts[np.isin(positions, head)].sum() / counts.sum()),
        head_taken=float(item_users[head].sum() / item_users.sum()),
    )


def change_since_in_use(connection: Connection, settings: Settings, day: date) -> Change | None:
    """Compare the lists of a day with those of the model in use; None where none can be used."""
    registry = ModelRegistry(settings.models_dir)
    try:
        history = registry.history()
        recommender = Recommender.open(
            settings.data_dir, exclude_seen=settings.serving.exclude_seen
        )
    except MomError:
        return None
    model = recommender.describe()
    last = next(entry for entry in reversed(history) if entry.version == model.version)
    own = model.day == day.isoformat()
    shares = [] if own else _kept(connection, recommender, day)
    return Change(
        version=model.version,
        day=model.day,
        since=last.time[:10],
        reason=last.reason,
        by=last.by,
        kept=float(np.mean(shares)) if shares else None,
        compared=len(shares),
    )


def _kept(connection: Connection, recommender: Recommender, day: date) -> list[float]:
    """The share of each list of the model in use that the list of the day holds too."""
    now = lists_of(connection, typical_users(connection, day, _COMPARED), day)
    longest = max(map(len, now.values()), default=1)
    before = recommender.best_items(list(now), longest)
    shares = []
    for user, items in before.items():
        own = items[: len(now[user])]
        shares.append(len(set(own).intersection(now[user])) / max(len(own), 1))
    return shares
