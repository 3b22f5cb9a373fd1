"""What the explorer shows of one model beside its lists: search, histories, groups and items."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cached_property

import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving import answers
from mom_pipeline.serving.explorer import groups
from mom_pipeline.serving.served_model import ServedModel

# Items that stand for a group; people whose groups are counted.
_EXAMPLES, _COUNTED = 8, 50_000
# A smaller share of a group in a person is none; people whose groups are in memory at a time.
_LEAST_SHARE, _BLOCK = 0.01, 65_536
# Somebody to look at has taken so much, and something lately.
_HISTORY, _LATELY = 5, 7


class TextIndex:
    """Texts to be found by a part of them, in any case."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [text.casefold() for text in texts]

    def search(self, part: str, n: int) -> list[int]:
        """Positions of at most n texts that hold a part; those that begin with it first."""
        begins: list[int] = []
        others: list[int] = []
        part = part.casefold()
        for position, text in enumerate(self._texts):
            if part in text:
                (begins if text.startswith(part) else others).append(position)
                if len(begins) == n:
                    break
        return (begins + others)[:n]


class Explorer:
    """One model to look around in; what takes long is computed when it is asked for first."""

    def __init__(self, served: ServedModel, catalogue: Catalogue) -> None:
        self._served = served
        self._catalogue = catalogue

    def search(self, text: str, n: int) -> answers.Matches:
        """Users by id and items by id or name; without a text, people to look at, popular items."""
        served, most = self._served, n + 1
        if text:
            users = self._users.search(text, most)
            items = [y for index in self._items for y in index.search(text, most)]
            items = list(dict.fromkeys(items))
        else:
            users, popularity = self._some_users[:most].tolist(), served.model.popularity
            items = top_n(popularity[None], most)[0][0].tolist()
        return answers.Matches(
            model=served.manifest.version,
            users=tuple(str(served.user_ids[u]) for u in users[:n]),
            items=tuple(self.named(y) for y in items[:n]),
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
            answers.HistoryEntry(**dict(self.named(y)), weight=weight, day=_date(day))
            for y, weight, day in zip(
                items[order].tolist(), counts[order].tolist(), days[order].tolist(), strict=True
            )
        )
        version = self._served.manifest.version
        return answers.History(user=user, model=version, total=len(items), items=entries)

    @cached_property
    def groups(self) -> answers.Groups:
        """The components as groups of people, the largest first."""
        model, figures = self._served.model, self._served.figures
        O, K = model.item_probs, len(model.weights)
        counts = np.bincount(self._group_of, minlength=K)
        sizes = counts / max(counts.sum(), 1)
        X, last_days = self._counted
        kinds = np.repeat(self._group_of, np.diff(X.indptr))
        days, taken = groups.by_day(last_days.data, kinds, K)
        shares, places = groups.weekly_shares(taken), groups.bubbles(O, sizes)
        told = groups.set_apart(O, np.where(self._is_named, model.popularity, 0.0))
        examples = top_n(told.T, min(_EXAMPLES, len(O)))[0]
        agreement = figures.days[-1].agreement if figures and figures.days else ()
        return answers.Groups(
            model=self._served.manifest.version,
            people=len(self._served.user_ids),
            days=tuple(day.isoformat() for day in days),
            groups=tuple(
                answers.Group(
                    number=k + 1,
                    name=self.group_names[k],
                    size=float(sizes[k]),
                    agreement=agreement[k] if len(agreement) == K else None,
                    items=tuple(self.named(y) for y in examples[k].tolist() if told[y, k] > 0),
                    by_day=tuple(shares[:, k].tolist()),
                    place=tuple(places[k].tolist()),
                )
                for k in np.argsort(-sizes, kind="stable").tolist()
            ),
        )

    @cached_property
    def group_names(self) -> list[str]:
        """What sets each component apart, in words."""
        model, ids = self._served.model, [str(item) for item in self._served.item_ids]
        known = np.where(self._is_named, model.popularity, 0.0)
        return groups.group_names(model.item_probs, known, ids, self._catalogue)

    def members(self, n: int | None = None) -> Iterator[dict[str, Array]]:
        """Everybody's n strongest groups, block by block: columns, a row for each of a user."""
        X, names = self._served.histories, np.array(self.group_names, dtype=object)
        known = np.flatnonzero(np.diff(X.indptr))
        for start in range(0, len(known), _BLOCK):
            users = known[start : start + _BLOCK]
            P = self._served.model.memberships(X[users])
            order = np.argsort(-P, axis=1, kind="stable")[:, :n]
            shares = np.take_along_axis(P, order, axis=1)
            rows, ranks = np.nonzero(shares >= _LEAST_SHARE)
            of = order[rows, ranks]
            yield {
                "user_id": self._served.user_ids[users[rows]],
                "rank": ranks + 1,
                "number": of + 1,
                "name": names[of],
                "share": shares[rows, ranks].astype(np.float64),
            }

    def item(self, item: str) -> answers.ItemUse:
        """Who takes an item, and when; UnknownItem when the model does not know it."""
        position, (X, last_days) = self.position(item), self._counted
        entries = np.flatnonzero(X.indices == position)
        users = np.searchsorted(X.indptr, entries, side="right") - 1
        K, everybody = len(self._served.model.weights), self._group_of
        own, usual = (np.bincount(of, minlength=K) for of in (everybody[users], everybody))
        days, counts = groups.by_day(last_days.data, (X.indices == position).astype(np.int64), 2)
        entry = self._catalogue.entry(item)
        return answers.ItemUse(
            **dict(self.named(position)),
            model=self._served.manifest.version,
            url=entry.url,
            groups=entry.groups,
            taken_by=len(entries) / max(X.shape[0], 1),
            by_group=tuple(
                answers.GroupShare(
                    number=k + 1,
                    name=self.group_names[k],
                    share=float(own[k] / len(entries)),
                    usual=float(usual[k] / usual.sum()),
                )
                for k in np.argsort(-own, kind="stable").tolist()
                if own[k]
            ),
            days=tuple(day.isoformat() for day in days),
            by_day=tuple(counts[:, 1].tolist()),
        )

    @cached_property
    def _counted(self) -> tuple[Csr, Csr]:
        """Histories and days of everybody, or of as many people as are counted."""
        X, days = self._served.histories, self._served.last_days
        step = max(1, -(-X.shape[0] // _COUNTED))
        return (X, days) if step == 1 else (X[::step], days[::step])

    @cached_property
    def _group_of(self) -> Array:
        return groups.strongest_groups(self._served.model, self._counted[0])

    @cached_property
    def _is_named(self) -> Array:
        """The items that nobody's erasure took away, (D,) of bool."""
        return np.array([bool(item) for item in self._served.item_ids], dtype=bool)

    @cached_property
    def _users(self) -> TextIndex:
        return TextIndex(map(str, self._served.user_ids))

    @cached_property
    def _items(self) -> tuple[TextIndex, TextIndex]:
        """Ids and names of the items."""
        ids = [str(item) for item in self._served.item_ids]
        return TextIndex(ids), TextIndex(map(self._catalogue.name, ids))

    def position(self, item: str) -> int:
        """Where an item stands in the model; UnknownItem when it does not."""
        position = self._served.item_positions.get(item)
        if position is None:
            raise answers.UnknownItem(f"the model does not know the item {answers.shown(item)}")
        return position

    def named(self, position: int) -> answers.NamedItem:
        """An item with its name and its picture."""
        entry = self._catalogue.entry(str(self._served.item_ids[position]))
        return answers.NamedItem(item=entry.item, name=entry.name, image=entry.image)


def _date(number: float) -> str:
    return (groups.FIRST_DAY + timedelta(days=int(number))).isoformat()
