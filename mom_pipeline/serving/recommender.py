"""Answers of one model, from Python:

from mom_pipeline import Recommender

recommender = Recommender.open("data")
recommender.recommend("some user", n=10)
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mom_pipeline.catalogue import did_you_mean
from mom_pipeline.core.interactions import one_row
from mom_pipeline.core.ranking.exact_top import ExactTop
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, RISING, explain_row, strongest
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.topn import BestItems, top_n
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.serving import answers
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.explorer.explorer import Explorer
from mom_pipeline.serving.groups import KnownGroups
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.rules import Rules, catalogue_groups, group_rows
from mom_pipeline.serving.served_model import ServedModel
from mom_pipeline.settings import ModelSettings, load_settings

MAX_LIST = 1_000
MAX_HISTORY = 10_000
_SHOWN_GROUPS = 10
# Items of the list in which an explanation says the place of one.
_LISTED = 20
# Smaller terms of an explanation are rounding.
_NEGLIGIBLE = 1e-12
MAX_WEIGHT = 1e9
# Items that somebody took, or how often by item.
Taken = Sequence[str] | Mapping[str, float]
# What a user took after a day: item -> weight.
Since = Callable[[str, str], Mapping[str, float]]
_POPULAR = answers.Reason(kind="popularity", name="", share=1.0)


@dataclass(frozen=True)
class ListChoice:
    """What was asked of one list.

    allowed: (D,) of bool, None for all items.  unknown: ids the model lacks.
    order: max_per_group and diversity, where they are not those of the settings.
    """

    allowed: Array | None
    unknown: tuple[str, ...]
    order: Mapping[str, Any]


class Recommender:
    """One model, ready to answer; safe to share between threads.

    rules: of its lists.  since: weights by item of what a user took after a day.
    """

    def __init__(
        self, served: ServedModel, rules: Rules | None = None, *, since: Since | None = None
    ) -> None:
        self._served, self._rules, self._since = served, rules or Rules(), since
        self._catalogue, self._model = self._rules.catalogue, self._rules.applied_to(served)
        self._model.prepare()
        _ = served.item_positions, served.user_positions

    def with_rules(self, rules: Rules) -> "Recommender":
        """The same model under other rules."""
        return Recommender(self._served, rules, since=self._since)

    @classmethod
    def open(cls, data_dir: str | os.PathLike[str]) -> Self:
        """Load the model in use of a data folder, or raise NoChampion or DamagedModel."""
        settings = load_settings(Path(data_dir))
        registry = ModelRegistry(settings.models_dir, mapped=settings.engine.mapped)
        since = EventStore(settings).since
        return cls(registry.champion(), Rules.of(settings), since=since)

    @property
    def version(self) -> str:
        return self._served.manifest.version

    def has_item(self, item: str) -> bool:
        """Whether the model knows an item."""
        return item in self._served.item_positions

    def describe(self) -> answers.ModelInUse:
        """What the model was made of, and its size."""
        users, items = len(self._served.user_ids), int((self._model.popularity > 0).sum())
        return answers.ModelInUse(
            **asdict(self._served.manifest),
            defaults=asdict(ModelSettings()),
            users=users,
            items=items,
        )

    @cached_property
    def explorer(self) -> Explorer:
        """What the pages show beside the lists."""
        return Explorer(self.groups)

    @cached_property
    def groups(self) -> KnownGroups:
        """The groups of people that the components are."""
        return KnownGroups(self._served, self._rules, self._model)

    def choose(
        self,
        only: Collection[str] | None = None,
        without: Collection[str] = (),
        group: str | None = None,
        **order: Any,
    ) -> ListChoice:
        """Some items alone, all but some, those of a group: for `recommend`.

        order: max_per_group and diversity of this list; None as in the settings.
        """
        asked_order = {name: value for name, value in order.items() if value is not None}
        if only is None and not without and group is None:
            return ListChoice(None, (), asked_order)
        positions, asked = self._served.item_positions, dict.fromkeys((*(only or ()), *without))
        allowed = np.full(len(self._served.item_ids), only is None)
        allowed[[positions[item] for item in only or () if item in positions]] = True
        allowed[[positions[item] for item in without if item in positions]] = False
        if group is not None:
            allowed[np.delete(np.arange(len(allowed)), self._of_group(group))] = False
        unknown = tuple(item for item in asked if item not in positions)
        return ListChoice(allowed, unknown, asked_order)

    def recommend(
        self,
        user: str,
        n: int = 20,
        *,
        exclude_seen: bool | None = None,
        events: Taken = (),
        among: ListChoice | None = None,
    ) -> answers.Recommendations:
        """The n best items of a user; popular ones where there is no history.

        events: items that the user took since the model was made, as if on its day, or how often
        by item; nothing is trained.
        among: of `choose`; the list is the best of these items alone.
        """
        history = self._history(user)
        note = f"the user {answers.shown(user)} has no history"
        if history is None and not events:
            note = f"the model does not know the user {answers.shown(user)}"
        return self._list(user, history, events, note, n, exclude_seen, among)

    def recommend_items(
        self,
        items: Taken,
        n: int = 20,
        *,
        exclude_seen: bool | None = None,
        among: ListChoice | None = None,
    ) -> answers.Recommendations:
        """The n best items of somebody new who took the given ones; one given twice, twice.

        items: ids, or how often by id, such as {"a": 2.5}. Nothing is trained.
        """
        note = "the model knows none of the given items"
        return self._list(None, None, items, note, n, exclude_seen, among)

    def best_items(self, users: Sequence[str], n: int) -> dict[str, list[str]]:
        """The n best items of many users at once; no entry for a user without a history."""
        positions, X = self._served.user_positions, self._served.histories
        sizes = np.diff(X.indptr)
        known = [user for user in users if user in positions and sizes[positions[user]]]
        rows = [positions[user] for user in known]
        days, seen = self._served.last_days[rows], self._rules.exclude_seen
        best = self._model.best(X[rows], n, exclude_seen=seen, last_days=days).items.tolist()
        return {
            user: [self._id(y) for y in items if y >= 0]
            for user, items in zip(known, best, strict=True)
        }

    def similar(self, item: str, n: int = 20) -> answers.SimilarItems:
        """The n items that go with one most often, compared with their popularity."""
        _check_length(n)
        position = self.explorer.position(item)
        scores = np.where(self._model.candidates, self._model.similar(position), 0)
        scores[position] = 0
        lines = tuple(
            answers.ScoredItem(**dict(self.groups.named(y)), score=float(scores[y]))
            for y in self.groups.largest(scores, n)
        )
        return answers.SimilarItems(item=item, model=self.version, items=lines)

    def explain(self, user: str, item: str) -> answers.ExplainedScore:
        """What the user's score of an item is made of; UnknownUser where there is no history."""
        history = self._history(user)
        if history is None or not history.X.nnz:
            raise answers.UnknownUser(
                f"the model has no history of the user {answers.shown(user)}, so there is nothing "
                "to explain; such users get popular items"
            )
        model, y = self._model, self.explorer.position(item)
        seen = y in history.X.indices  # then as in a list that may hold it
        hidden = self._rules.exclude_seen and not seen
        why = explain_row(model, history, np.array([y]), exclude_seen=hidden)
        score, own = float(why.best.scores[0, 0]), map(self._id, history.X.indices.tolist())
        components = enumerate(why.by_component[0].tolist(), start=1)
        by_history = dict(zip(own, why.by_history[0].tolist(), strict=True))
        return answers.ExplainedScore(
            user=user,
            item=item,
            model=self.version,
            score=score,
            seen=seen,
            hidden=not self._model.candidates[y],
            place=self._place(history, y, self._model.top(), exclude_seen=hidden),
            place_by_score=self._place(history, y, self._model.top().by_score, exclude_seen=hidden),
            reason=self._reasons(history, why.best)[0],
            moments=_terms({name: part[0] for name, part in why.by_part.items()}, score),
            components=_terms(
                _largest({str(k): value for k, value in components}, score),
                score,
                lambda k: self.groups.names[int(k) - 1].name,
            ),
            history=_terms(_largest(by_history, score), score, self._catalogue.label),
        )

    @staticmethod
    def _place(history: Histories, item: int, top: ExactTop, *, exclude_seen: bool) -> int | None:
        """Where an item stands in a list, from 1; None outside of it."""
        listed = top.best(history, _LISTED, exclude_seen=exclude_seen).items[0].tolist()
        return listed.index(item) + 1 if item in listed else None

    def did_you_mean(self, *, user: str = "", item: str = "") -> str:
        """Return "; did you mean …?" for an unknown user or item, or "". Looks at every id."""
        served = self._served
        if user and user not in served.user_positions:
            return did_you_mean(user, served.user_positions)
        known = not item or item in served.item_positions
        return "" if known else did_you_mean(item, served.item_positions)

    def _history(self, user: str) -> Histories | None:
        """What a user took, also since the model was made; None for somebody unknown."""
        own, known = self._served.history(user), self._served.item_positions
        history = None if own is None else self._row(*own)
        since = self._since(user, self._served.manifest.day) if self._since else {}
        fresh = {known[item]: n for item, n in since.items() if item in known}
        return self._joined(history, fresh) if fresh else history

    def _row(self, items: Array, counts: Array, days: Array) -> Histories:
        """One user's items, rising, with how often and when last."""
        model = self._model
        X, last_days = (one_row(items, values, model.n_items) for values in (counts, days))
        return model.histories(X, last_days=last_days)

    def _joined(self, history: Histories | None, fresh: Mapping[int, float]) -> Histories:
        """A history with what came since, on the model's day; without what was given back."""
        ranking, own = self._model.pair_ranking, dict[int, tuple[float, float]]()
        newest = 0 if ranking is None or ranking.days is None else ranking.days.newest
        if history is not None:
            days = history.X.data * 0 if history.last_days is None else history.last_days.data
            entries = zip(history.X.data.tolist(), days.tolist(), strict=True)
            own = dict(zip(history.X.indices.tolist(), entries, strict=True))
        for y, n in fresh.items():
            own[y] = (own.get(y, (0.0, 0.0))[0] + n, newest)
        items = np.array(sorted(y for y, (n, _) in own.items() if n > 0), dtype=np.int64)
        counts, days = np.array([own[y] for y in items.tolist()]).reshape(-1, 2).T
        return self._row(items, counts, days)

    def _taken(self, items: Taken) -> tuple[dict[int, float], tuple[str, ...]]:
        """How often by position, and the items that the model does not know."""
        if isinstance(items, str) or not 1 <= len(items) <= MAX_HISTORY:
            given = "one text" if isinstance(items, str) else f"{len(items):,}"
            raise answers.InvalidQuestion(
                f"a list of 1 to {MAX_HISTORY:,} items expected, found {given}"
            )
        counts = items if isinstance(items, Mapping) else Counter(items)
        wrong = {item: n for item, n in counts.items() if not 0 < n < MAX_WEIGHT}
        if wrong:
            raise answers.InvalidQuestion(
                f"weights of items must be above 0 and below {MAX_WEIGHT:g}, found {wrong!r:.80}"
            )
        known = self._served.item_positions
        unknown = tuple(item for item in counts if item not in known)
        taken = {known[item]: float(count) for item, count in counts.items() if item in known}
        return taken, unknown

    def _list(
        self,
        user: str | None,
        history: Histories | None,
        events: Taken,
        why_popular: str,
        n: int,
        exclude_seen: bool | None,
        among: ListChoice | None,
    ) -> answers.Recommendations:
        """The list and what is to be said of it; without a history, popular items and why."""
        unknown: tuple[str, ...] = ()
        if events or user is None:
            fresh, unknown = self._taken(events)
            history = self._joined(history, fresh)
        _check_length(n)
        notes, top = list[str](), self._top(among)
        unknown += among.unknown if among else ()
        fallback = history is None or not history.X.nnz
        if history is None or fallback:
            lines, notes = self._popular(n, top), [f"{why_popular}: popular items"]
        else:
            lines = self._best(history, n, exclude_seen, top)
        if unknown and not fallback:
            notes.append("items that the model does not know were left out")
        if not lines and among is not None and among.allowed is not None:
            left = f"the choice leaves {int(among.allowed.sum()):,} items of the model"
            notes.append(f"{left}, none of which can be recommended")
        return answers.Recommendations(
            user=user,
            model=self.version,
            fallback=fallback,
            note="; ".join(notes),
            items=lines,
            unknown_items=unknown,
        )

    def _top(self, asked: ListChoice | None) -> ExactTop:
        top = self._model.top()
        if asked is not None and asked.order:
            top = replace(top, rules=replace(top.rules, groups=self._group_rows, **asked.order))
        return top if asked is None or asked.allowed is None else top.among(asked.allowed)

    def _popular(self, n: int, top: ExactTop) -> tuple[answers.Recommendation, ...]:
        items, shares = self._model.popular(n, top)
        lines = zip(items.tolist(), shares.tolist(), strict=True)
        return tuple(self._line(y, share, _POPULAR) for y, share in lines)

    def _best(
        self, history: Histories, n: int, exclude_seen: bool | None, top: ExactTop
    ) -> tuple[answers.Recommendation, ...]:
        """The best items, each with its reason; a short list ends with -1, which has none."""
        exclude = self._rules.exclude_seen if exclude_seen is None else exclude_seen
        best = top.best(history, n, exclude_seen=exclude)
        items, scores = best.items[0].tolist(), best.scores[0].tolist()
        lines = zip(items, scores, self._reasons(history, best), strict=False)
        return tuple(self._line(y, score, reason) for y, score, reason in lines)

    def _line(self, position: int, score: float, reason: answers.Reason) -> answers.Recommendation:
        named = self.groups.named(position)
        return answers.Recommendation(**dict(named), score=score, reason=reason)

    def _reasons(self, history: Histories, best: BestItems) -> list[answers.Reason]:
        """What contributed most to each score, as the table of lists says it."""
        why = strongest(self._model, history, best)
        listed = int((best.items[0] >= 0).sum())
        columns = (row[0, :listed] for row in (why.kinds, why.causes, why.terms, best.scores))
        lines = zip(*(column.tolist() for column in columns), strict=True)
        return [
            self._reason(kind, cause, _share(term, score)) for kind, cause, term, score in lines
        ]

    def _reason(self, kind: int, cause: int, share: float) -> answers.Reason:
        if kind == ITEM:
            name, label = self._id(cause), self._label(cause)
            return answers.Reason(kind="item", name=name, label=label, share=share)
        if kind == COMPONENT:
            name, examples = str(cause + 1), self._examples[cause]
            return answers.Reason(kind="component", name=name, share=share, examples=examples)
        return answers.Reason(
            kind="trend" if kind == RISING else "popularity", name="", share=share
        )

    @cached_property
    def _examples(self) -> list[tuple[str, ...]]:
        """The three items that each component shows most often."""
        best, _ = top_n(self._model.item_probs.T, 3)
        return [tuple(self._label(y) for y in row) for row in best]

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        return catalogue_groups(self._served, self._catalogue)

    @cached_property
    def _group_rows(self) -> Csr:
        return group_rows(self._groups, self._model.n_items)

    def _of_group(self, group: str) -> list[int]:
        if group not in self._groups:
            some = ", ".join(answers.shown(known) for known in sorted(self._groups)[:_SHOWN_GROUPS])
            known = f"; known groups: {some}" if some else "; items.csv names no groups"
            near = did_you_mean(group, self._groups) or known
            raise answers.UnknownGroup(f"no item has the group {answers.shown(group)}{near}")
        return self._groups[group]

    def _id(self, position: int) -> str:
        return str(self._served.item_ids[position])

    def _label(self, position: int) -> str:
        return self._catalogue.label(self._id(position))


def _check_length(n: int) -> None:
    if not 1 <= n <= MAX_LIST:
        raise answers.InvalidQuestion(f"n must lie between 1 and {MAX_LIST:,}, found {n}")


def _largest(values: Mapping[str, float], score: float) -> dict[str, float]:
    """Values of terms, the largest first; those that are rounding left out."""
    ordered = sorted(values.items(), key=lambda term: -term[1])
    return {name: value for name, value in ordered if abs(value) > _NEGLIGIBLE * abs(score)}


def _terms(
    values: Mapping[str, float], score: float, label: Callable[[str], str] = lambda name: ""
) -> tuple[answers.Contribution, ...]:
    return tuple(
        answers.Contribution(name=n, label=label(n), contribution=v, share=_share(v, score))
        for n, v in values.items()
    )


def _share(value: float, score: float) -> float:
    return value / score if score > 0 else 0.0
