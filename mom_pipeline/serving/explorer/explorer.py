"""What the explorer shows of one model beside its lists: search, histories and items."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np

from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Float64
from mom_pipeline.groups.people import FIRST_DAY, by_day, sizes
from mom_pipeline.serving import answers
from mom_pipeline.serving.groups import KnownGroups

# Somebody to look at has taken so much, and something lately.
_HISTORY, _LATELY = 5, 7


def found_in(texts: Sequence[str], part: str, n: int) -> list[int]:
    """Positions of n folded texts that hold a part, in any case; those that begin with it first."""
    begins, others, part = list[int](), list[int](), part.casefold()
    for position, text in enumerate(texts):
        if part in text:
            (begins if text.startswith(part) else others).append(position)
            if len(begins) == n:
                break
    return (begins + others)[:n]


class Explorer:
    """One model to look around in; what takes long is computed when it is asked for first."""

    def __init__(self, groups: KnownGroups) -> None:
        self._served, self._catalogue = groups.served, groups.rules.catalogue
        self.groups = groups

    def search(self, text: str, n: int) -> answers.Matches:
        """Users by id and items by id or name; without a text, people to look at, popular items."""
        served, most = self._served, n + 1
        if text:
            users = found_in(self._users, text, most)
            items = list(dict.fromkeys(y for own in self._items for y in found_in(own, text, most)))
        else:
            users, popularity = self._some_users[:most].tolist(), served.model.popularity
            items = top_n(popularity[None], most)[0][0].tolist()
        return answers.Matches(
            model=served.manifest.version,
            users=tuple(str(served.user_ids[u]) for u in users[:n]),
            items=tuple(self.groups.named(y) for y in items[:n]),
            more=len(users) > n or len(items) > n,
        )

    @cached_property
    def _some_users(self) -> Array:
        """People in an order that is always the same: first those of some items and of late."""
        X, days = self._served.histories, self._served.last_days
        order = np.random.default_rng(0).permutation(X.shape[0])
        sizes, newest = np.diff(X.indptr), np.zeros(X.shape[0])
        some = np.flatnonzero(sizes)
        if len(some):
            newest[some] = np.maximum.reduceat(days.data, X.indptr[some])
        wanted = (sizes >= _HISTORY) & (newest > newest.max(initial=0) - _LATELY)
        return np.asarray(order[np.argsort(~wanted[order], kind="stable")])

    def history(self, user: str, n: int) -> answers.History:
        """What a user took, the newest first; UnknownUser when the model has nothing of them."""
        own = self._served.history(user)
        if own is None:
            raise answers.UnknownUser(f"the model does not know the user {answers.shown(user)}")
        items, counts, days = own
        order = np.lexsort((-counts, -days.astype(np.int64)))[:n]
        entries = tuple(
            answers.HistoryEntry(**dict(self.groups.named(y)), weight=weight, day=_date(day))
            for y, weight, day in zip(
                items[order].tolist(), counts[order].tolist(), days[order].tolist(), strict=True
            )
        )
        version = self._served.manifest.version
        return answers.History(user=user, model=version, total=len(items), items=entries)

    def item(self, item: str) -> answers.ItemUse:
        """Who takes an item, and when, or is expected to; UnknownItem where nothing is known."""
        known, entry, shares = self.groups, self._catalogue.entry(item), None
        if item not in self._served.item_positions and item in self._catalogue.items:
            shares = known.expected(item)
        if expected := shares is not None:
            use: dict[str, Any] = {"taken_by": 0.0, "days": (), "by_day": ()}
            by_group = [k for k in np.argsort(-shares, kind="stable") if k in known.shown]
        else:
            use, shares = self._taken_by(self.position(item))
            by_group = [k for k in np.argsort(-shares, kind="stable") if shares[k]]
        usual = known.group_sizes / max(known.group_sizes.sum(), 1)
        return answers.ItemUse(
            item=entry.item,
            name=entry.name,
            image=entry.image,
            url=entry.url,
            groups=entry.groups,
            model=self._served.manifest.version,
            expected=expected,
            by_group=tuple(
                answers.GroupShare(
                    number=k + 1, name=known.names[k].name, share=shares[k], usual=usual[k]
                )
                for k in map(int, by_group)
            ),
            **use,
        )

    def _taken_by(self, position: int) -> tuple[dict[str, Any], Float64]:
        """How many took an item, also by day, and the share of each group in them."""
        known, (X, last_days) = self.groups, self.groups.counted
        entries = np.flatnonzero(X.indices == position)
        users = np.searchsorted(X.indptr, entries, side="right") - 1
        days, counts = by_day(last_days.data, (X.indices == position).astype(np.int64), 2)
        use = {
            "taken_by": len(entries) / max(X.shape[0], 1),
            "days": tuple(day.isoformat() for day in days),
            "by_day": tuple(counts[:, 1].tolist()),
        }
        return use, sizes(known.group_of[users], known.K) / max(len(entries), 1)

    @cached_property
    def _users(self) -> list[str]:
        return [str(user).casefold() for user in self._served.user_ids]

    @cached_property
    def _items(self) -> tuple[list[str], list[str]]:
        """Ids and names of the items."""
        ids = [str(item) for item in self._served.item_ids]
        return [item.casefold() for item in ids], [self._catalogue.name(y).casefold() for y in ids]

    def position(self, item: str) -> int:
        """Where an item stands in the model; UnknownItem when it does not."""
        position = self._served.item_positions.get(item)
        if position is None:
            raise answers.UnknownItem(f"the model does not know the item {answers.shown(item)}")
        return position


def _date(number: float) -> str:
    return (FIRST_DAY + timedelta(days=int(number))).isoformat()
