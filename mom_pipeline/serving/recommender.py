"""Answers of one model, from Python:

from mom_pipeline import Recommender

recommender = Recommender.open("data")
recommender.recommend("some user", n=10)
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mom_pipeline.catalogue import Catalogue, did_you_mean
from mom_pipeline.core.interactions import one_row
from mom_pipeline.core.ranking.explain import (
    COMPONENT,
    ITEM,
    explain_row,
    similar_scores,
    strongest,
)
from mom_pipeline.core.ranking.parts import COMPONENTS
from mom_pipeline.core.ranking.topn import BestItems, most_popular, top_n
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving.answers import (
    Contribution,
    ExplainedScore,
    InvalidQuestion,
    ModelInUse,
    Reason,
    Recommendation,
    Recommendations,
    SimilarItem,
    SimilarItems,
    UnknownGroup,
    UnknownItem,
    UnknownUser,
    shown,
)
from mom_pipeline.serving.explorer.explorer import Explorer
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import ServedModel
from mom_pipeline.settings import Settings, load_settings

MAX_LIST = 1_000
MAX_HISTORY = 10_000
_SHOWN_GROUPS = 10
# Smaller terms of an explanation are rounding.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class ItemFilter:
    """Which items a list may hold: some alone, all but some, those of a group."""

    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True)
class AllowedItems:
    """A filter in the items of one model. allowed: (D,) of bool.  unknown: ids it does not know."""

    allowed: Array
    unknown: tuple[str, ...]


class Recommender:
    """One model, ready to answer; safe to share between threads.

    exclude_seen: leave out what the user has had already.
    catalogue: names and groups of the items.  left_out: ids of items that no list may hold.
    """

    def __init__(
        self,
        served: ServedModel,
        *,
        exclude_seen: bool = True,
        catalogue: Catalogue | None = None,
        left_out: Collection[str] = (),
    ) -> None:
        served = replace(served, model=served.model.excluding(left_out, served.item_ids))
        self._served = served
        self._exclude_seen = exclude_seen
        self._catalogue = catalogue or Catalogue()
        served.model.prepare()
        _ = served.item_positions, served.user_positions

    @classmethod
    def open(cls, data_dir: str | os.PathLike[str], *, exclude_seen: bool | None = None) -> Self:
        """Load the model in use of a data folder. exclude_seen: None for what its settings say.

        Raises NoChampion before the first promotion, DamagedModel when its files differ from
        what was written.
        """
        settings = load_settings(Path(data_dir))
        registry = ModelRegistry(settings.models_dir, mapped=settings.engine.mapped)
        rules = list_rules(settings)
        if exclude_seen is not None:
            rules["exclude_seen"] = exclude_seen
        return cls(registry.champion(), **rules)

    @property
    def version(self) -> str:
        return self._served.manifest.version

    def describe(self) -> ModelInUse:
        """What the model was made of, and its size."""
        served = self._served
        return ModelInUse(
            **asdict(served.manifest), users=len(served.user_ids), items=len(served.item_ids)
        )

    @cached_property
    def explorer(self) -> Explorer:
        """What the pages show beside the lists."""
        return Explorer(self._served, self._catalogue)

    def choose(self, choice: ItemFilter) -> AllowedItems | None:
        """Which items a filter leaves, for `recommend`; None where it leaves them all.

        Raises UnknownGroup for a group that no item of the catalogue has.
        """
        if choice == ItemFilter():
            return None
        groups = self._groups
        if choice.group is not None and choice.group not in groups:
            near = did_you_mean(choice.group, groups)
            raise UnknownGroup(
                f"no item has the group {shown(choice.group)}{near or _some(groups)}"
            )
        positions = self._served.item_positions
        allowed = np.ones(len(self._served.item_ids), dtype=bool)
        if choice.only is not None:
            allowed[:] = False
            allowed[[positions[item] for item in choice.only if item in positions]] = True
        allowed[[positions[item] for item in choice.without if item in positions]] = False
        if choice.group is not None:
            allowed &= groups[choice.group]
        unknown = [i for i in (*(choice.only or ()), *choice.without) if i not in positions]
        return AllowedItems(allowed, tuple(dict.fromkeys(unknown)))

    def recommend(
        self,
        user: str,
        n: int = 20,
        *,
        exclude_seen: bool | None = None,
        events: Sequence[str] = (),
        among: AllowedItems | None = None,
    ) -> Recommendations:
        """The n best items of a user; popular ones where there is no history.

        events: items that the user took since the model was made. They count as if taken on the
        day of the user's latest event; nothing is trained.
        among: of `choose`; the list is the best of these items alone.
        """
        _check_length(n)
        history, note = self._history(user), ""
        fresh, unknown = self._taken(events) if events else (None, ())
        if fresh is not None:
            history = fresh if history is None else history + fresh
        if history is None:
            note = f"the model does not know the user {shown(user)}: popular items"
        elif not history.nnz:
            note = f"the user {shown(user)} has no history: popular items"
        lines = self._lines(history, n, exclude_seen, among)
        return self._list(user, lines, note, unknown, among)

    def best_items(self, users: Sequence[str], n: int) -> dict[str, list[str]]:
        """The n best items of many users at once; no entry for a user without a history."""
        positions, X = self._served.user_positions, self._served.histories
        sizes = np.diff(X.indptr)
        known = [user for user in users if user in positions and sizes[positions[user]]]
        rows = X[[positions[user] for user in known]]
        best = self._served.model.best(rows, n, exclude_seen=self._exclude_seen).items.tolist()
        return {
            user: [self._id(y) for y in items if y >= 0]
            for user, items in zip(known, best, strict=True)
        }

    def recommend_items(
        self,
        items: Sequence[str],
        n: int = 20,
        *,
        exclude_seen: bool | None = None,
        among: AllowedItems | None = None,
    ) -> Recommendations:
        """The n best items of somebody new who took the given ones.

        Nothing is trained: P[component | user] needs only O and pi. An item that is given twice
        was taken twice. Unknown items are left out and named in the answer.
        Raises InvalidQuestion when no item is given, or more than MAX_HISTORY.
        """
        _check_length(n)
        history, unknown = self._taken(items)
        note = "" if history.nnz else "the model knows none of the given items: popular items"
        lines = self._lines(history, n, exclude_seen, among)
        return self._list(None, lines, note, unknown, among)

    def _taken(self, items: Sequence[str]) -> tuple[Csr, tuple[str, ...]]:
        """Items as a history, and those that the model does not know."""
        if isinstance(items, str) or not 1 <= len(items) <= MAX_HISTORY:
            given = "one text" if isinstance(items, str) else f"{len(items):,}"
            raise InvalidQuestion(f"a list of 1 to {MAX_HISTORY:,} items expected, found {given}")
        counts, known = Counter(items), self._served.item_positions
        unknown = tuple(item for item in counts if item not in known)
        taken = {known[item]: count for item, count in counts.items() if item in known}
        positions = np.array(sorted(taken), dtype=np.int64)
        times = np.array([float(taken[y]) for y in positions.tolist()])
        return one_row(positions, times, self._served.model.n_items), unknown

    def did_you_mean(self, *, user: str = "", item: str = "") -> str:
        """Return "; did you mean …?" for a user or an item that the model does not know, or "".

        A look at every id: for a person who waits, not for a service.
        """
        known = self._served.user_positions if user else self._served.item_positions
        return "" if (user or item) in known else did_you_mean(user or item, known)

    def similar(self, item: str, n: int = 20) -> SimilarItems:
        """The n items that go with one most often, compared with their popularity.

        Raises UnknownItem.
        """
        _check_length(n)
        position = self._item(item)
        scores = similar_scores(self._served.model, position)
        scores[position] = -np.inf
        scores[(scores <= 0) | ~self._served.model.candidates] = -np.inf
        best, values = top_n(scores[None], n)
        lines = tuple(
            SimilarItem(item=self._id(y), name=self._name(y), score=score)
            for y, score in zip(best[0].tolist(), values[0].tolist(), strict=True)
            if y >= 0
        )
        return SimilarItems(item=item, model=self.version, items=lines)

    def explain(self, user: str, item: str) -> ExplainedScore:
        """What the user's score of an item is made of.

        Raises UnknownUser when there is no history, UnknownItem.
        """
        history = self._history(user)
        if history is None or not history.nnz:
            raise UnknownUser(
                f"the model has no history of the user {shown(user)}, so there is nothing to "
                "explain; such users get popular items"
            )
        position = self._item(item)
        taken_apart = explain_row(self._served.model, history, np.array([position]))
        best, components = taken_apart.best, taken_apart.by_component[0].tolist()
        score = float(best.scores[0, 0])
        names = [self._id(int(y)) for y in history.indices]
        own = taken_apart.by_history[0].tolist()
        numbers = map(str, range(1, len(components) + 1))
        return ExplainedScore(
            user=user,
            item=item,
            model=self.version,
            score=score,
            seen=bool(np.isin(position, history.indices)),
            reason=self._reasons(history, taken_apart.memberships, best)[0],
            moments=tuple(
                _contribution(name, float(part[0]), score)
                for name, part in taken_apart.by_part.items()
            ),
            components=_largest_first(zip(numbers, components, strict=True), score),
            history=tuple(
                term.model_copy(update={"label": self._catalogue.label(term.name)})
                for term in _largest_first(zip(names, own, strict=True), score)
            ),
        )

    def _reasons(self, history: Csr, P: Array, best: BestItems) -> list[Reason]:
        """What contributed most to each score, as the table of lists says it."""
        why = strongest(self._served.model, history, P, best)
        listed = int((best.items[0] >= 0).sum())
        columns = (row[0, :listed] for row in (why.kinds, why.causes, why.terms, best.scores))
        lines = zip(*(column.tolist() for column in columns), strict=True)
        return [
            self._reason(kind, cause, _share(term, score)) for kind, cause, term, score in lines
        ]

    def _reason(self, kind: int, cause: int, share: float) -> Reason:
        if kind == ITEM:
            return Reason(kind="item", name=self._id(cause), label=self._label(cause), share=share)
        if kind == COMPONENT:
            examples = self._examples[cause]
            return Reason(kind="component", name=str(cause + 1), share=share, examples=examples)
        return Reason(kind="popularity", name="", share=share)

    def _lines(
        self, history: Csr | None, n: int, exclude_seen: bool | None, among: AllowedItems | None
    ) -> list[tuple[int, float, Reason]]:
        """Positions, scores and reasons of the best items; of popular ones without a history."""
        model, only = self._served.model, None if among is None else among.allowed
        if history is None or not history.nnz:
            allowed = model.candidates if only is None else model.candidates & only
            items, shares = most_popular(np.where(allowed, model.popularity, 0.0), n)
            popular = Reason(kind="popularity", name="", share=1.0)
            return [
                (y, share, popular)
                for y, share in zip(items.tolist(), shares.tolist(), strict=True)
            ]
        exclude = self._exclude_seen if exclude_seen is None else exclude_seen
        # Zeros where no part of the score reads them.
        P = model.memberships(history) if self._by_components else np.zeros((1, len(model.weights)))
        best = model.best(history, n, exclude_seen=exclude, memberships=P, only=only)
        # A short list ends with -1; there is a reason for every item before it.
        reasons = self._reasons(history, P, best)
        scores = best.scores[0].tolist()
        return list(zip(best.items[0].tolist(), scores, reasons, strict=False))

    def _list(
        self,
        user: str | None,
        lines: Sequence[tuple[int, float, Reason]],
        note: str,
        unknown: tuple[str, ...],
        among: AllowedItems | None,
    ) -> Recommendations:
        """The answer. note: why the items are popular ones, "" where they are not."""
        unknown += among.unknown if among else ()
        notes = [note] if note else []
        if unknown and not note:
            notes.append("items that the model does not know were left out")
        if not lines and among is not None:
            left = int(among.allowed.sum())
            notes.append(
                f"the choice leaves {left:,} items of the model, none of which can be recommended"
            )
        return Recommendations(
            user=user,
            model=self.version,
            fallback=bool(note),
            note="; ".join(notes),
            items=tuple(
                Recommendation(item=self._id(y), name=self._name(y), score=score, reason=reason)
                for y, score, reason in lines
            ),
            unknown_items=unknown,
        )

    @cached_property
    def _by_components(self) -> bool:
        """Whether a part of the score reads P[component | user]."""
        return any(part.name == COMPONENTS for part, _ in self._served.model.top().score.parts)

    @cached_property
    def _groups(self) -> dict[str, Array]:
        """Group of the catalogue -> its items among those of the model, (D,) of bool."""
        groups: dict[str, Array] = {}
        for position, item in enumerate(self._served.item_ids):
            entry = self._catalogue.items.get(str(item))
            for group in entry.groups if entry else ():
                if group not in groups:
                    groups[group] = np.zeros(len(self._served.item_ids), dtype=bool)
                groups[group][position] = True
        return groups

    @cached_property
    def _examples(self) -> list[tuple[str, ...]]:
        """The three items that each component shows most often."""
        best, _ = top_n(self._served.model.item_probs.T, 3)
        return [tuple(self._label(y) for y in row) for row in best]

    def _history(self, user: str) -> Csr | None:
        position = self._served.user_positions.get(user)
        if position is None:
            return None
        X = self._served.histories
        own = slice(int(X.indptr[position]), int(X.indptr[position + 1]))
        return one_row(X.indices[own], X.data[own], self._served.model.n_items)

    def _item(self, item: str) -> int:
        position = self._served.item_positions.get(item)
        if position is None:
            raise UnknownItem(f"the model does not know the item {shown(item)}")
        return position

    def _id(self, position: int) -> str:
        return str(self._served.item_ids[position])

    def _name(self, position: int) -> str:
        return self._catalogue.name(self._id(position))

    def _label(self, position: int) -> str:
        return self._catalogue.label(self._id(position))


def list_rules(settings: Settings) -> dict[str, Any]:
    """What the settings say about every list, as arguments of a Recommender."""
    serving, catalogue = settings.serving, Catalogue.open(settings.data_dir)
    return {
        "exclude_seen": serving.exclude_seen,
        "catalogue": catalogue,
        "left_out": catalogue.left_out(serving.exclude_items, serving.exclude_groups),
    }


def _some(groups: Collection[str]) -> str:
    """Return which groups there are."""
    known = ", ".join(shown(group) for group in sorted(groups)[:_SHOWN_GROUPS])
    return f"; known groups: {known}" if known else "; items.csv names no groups"


def _check_length(n: int) -> None:
    if not 1 <= n <= MAX_LIST:
        raise InvalidQuestion(f"n must lie between 1 and {MAX_LIST:,}, found {n}")


def _largest_first(terms: Iterable[tuple[str, float]], score: float) -> tuple[Contribution, ...]:
    kept = [(name, value) for name, value in terms if abs(value) > _NEGLIGIBLE * abs(score)]
    kept.sort(key=lambda term: -term[1])
    return tuple(_contribution(name, value, score) for name, value in kept)


def _contribution(name: str, value: float, score: float) -> Contribution:
    return Contribution(name=name, contribution=value, share=_share(value, score))


def _share(value: float, score: float) -> float:
    return value / score if score else 0.0
