"""Answers of one model, from Python.

from mom_pipeline import Recommender

recommender = Recommender.of("data")
recommender.recommend("some user", n=10)
"""

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from mom_pipeline.core.interactions import one_row
from mom_pipeline.core.ranking.explain import similar_scores
from mom_pipeline.core.ranking.topn import most_popular, top_n
from mom_pipeline.core.types import Csr
from mom_pipeline.serving.answers import (
    Explanation,
    Reason,
    Recommendation,
    Recommendations,
    SimilarItem,
    SimilarItems,
)
from mom_pipeline.serving.errors import InvalidQuestion, UnknownItem, UnknownUser, shown
from mom_pipeline.serving.explaining import explained, reasons
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest, ServedModel

MODELS = "models"
MAX_LIST = 1_000
MAX_HISTORY = 10_000
MAX_ID = 4_096


class Recommender:
    """One model, ready to answer; safe to share between threads.

    exclude_seen: leave out what the user has had already.
    """

    def __init__(self, served: ServedModel, *, exclude_seen: bool = True) -> None:
        self._served = served
        self._exclude_seen = exclude_seen
        served.model.prepare()
        _ = served.item_positions, served.user_positions

    @classmethod
    def of(cls, data_dir: str | os.PathLike[str], *, exclude_seen: bool = True) -> Self:
        """Load the promoted model of a data folder.

        Raises NoChampion before the first promotion, DamagedModel when its files differ from
        what was written.
        """
        return cls(ModelRegistry(Path(data_dir) / MODELS).champion(), exclude_seen=exclude_seen)

    @property
    def manifest(self) -> Manifest:
        """Return what the model was made of."""
        return self._served.manifest

    @property
    def n_users(self) -> int:
        """Return N."""
        return len(self._served.user_ids)

    @property
    def n_items(self) -> int:
        """Return D."""
        return len(self._served.item_ids)

    def recommend(
        self, user: str, n: int = 20, *, exclude_seen: bool | None = None
    ) -> Recommendations:
        """Return the n best items of a user; popular ones where there is no history."""
        _check_length(n)
        history = self._history(user)
        if history is None:
            note = f"the model does not know the user {shown(user)}: popular items"
            return self._popular(user, n, note)
        if not history.nnz:
            return self._popular(user, n, f"the user {shown(user)} has no history: popular items")
        return self._list(user, history, n, exclude_seen)

    def recommend_items(
        self, items: Sequence[str], n: int = 20, *, exclude_seen: bool | None = None
    ) -> Recommendations:
        """Return the n best items of somebody new who took the given ones.

        Nothing is trained: P[class | user] needs only O and pi. An item that is given twice
        was taken twice. Unknown items are left out and named in the answer.
        Raises InvalidQuestion when no item is given, or more than MAX_HISTORY.
        """
        _check_length(n)
        if isinstance(items, str) or not 1 <= len(items) <= MAX_HISTORY:
            found = "one text" if isinstance(items, str) else f"{len(items):,}"
            raise InvalidQuestion(f"a list of 1 to {MAX_HISTORY:,} items expected, found {found}")
        counts = Counter(items)
        known = self._served.item_positions
        unknown = tuple(item for item in counts if item not in known)
        taken = {known[item]: count for item, count in counts.items() if item in known}
        if not taken:
            note = "the model knows none of the given items: popular items"
            return self._popular(None, n, note, unknown)
        positions = np.array(sorted(taken), dtype=np.int64)
        times = np.array([float(taken[y]) for y in positions.tolist()])
        history = one_row(positions, times, self.n_items)
        return self._list(None, history, n, exclude_seen, unknown)

    def similar(self, item: str, n: int = 20) -> SimilarItems:
        """Return the n items that go with one most often, compared with their popularity.

        Raises UnknownItem.
        """
        _check_length(n)
        position = self._item(item)
        scores = similar_scores(self._served.model, position)
        scores[position] = -np.inf
        scores[scores <= 0] = -np.inf
        best, values = top_n(scores[None], n)
        found = [
            SimilarItem(self._name(y), float(value))
            for y, value in zip(best[0], values[0], strict=True)
            if y >= 0
        ]
        return SimilarItems(item, self.manifest.version, tuple(found))

    def explain(self, user: str, item: str) -> Explanation:
        """Return what the user's score of an item is made of.

        Raises UnknownUser when there is no history, UnknownItem.
        """
        history = self._history(user)
        if history is None or not history.nnz:
            raise UnknownUser(
                f"the model has no history of the user {shown(user)}, so there is nothing to "
                "explain; such users get popular items"
            )
        position = self._item(item)
        return explained(self._served, user, history, item, position, self._examples)

    def _list(
        self,
        user: str | None,
        history: Csr,
        n: int,
        exclude_seen: bool | None,
        unknown: tuple[str, ...] = (),
    ) -> Recommendations:
        exclude = self._exclude_seen if exclude_seen is None else exclude_seen
        P = self._served.model.memberships(history)
        best = self._served.model.best(history, n, exclude_seen=exclude, memberships=P)
        why = reasons(self._served, history, P, best, self._examples)
        lines = zip(best.items[0].tolist(), best.scores[0].tolist(), why, strict=False)
        found = tuple(Recommendation(self._name(y), score, reason) for y, score, reason in lines)
        note = "items that the model does not know were left out" if unknown else ""
        return Recommendations(user, self.manifest.version, False, note, found, unknown)

    def _popular(
        self, user: str | None, n: int, note: str, unknown: tuple[str, ...] = ()
    ) -> Recommendations:
        items, shares = most_popular(self._served.model.popularity, n)
        found = tuple(
            Recommendation(self._name(y), share, Reason("popularity", "", 1.0))
            for y, share in zip(items.tolist(), shares.tolist(), strict=True)
        )
        return Recommendations(user, self.manifest.version, True, note, found, unknown)

    @cached_property
    def _examples(self) -> list[tuple[str, ...]]:
        """Name the three items that each component shows most often."""
        best, _ = top_n(self._served.model.item_probs.T, 3)
        return [tuple(self._name(y) for y in row) for row in best]

    def _history(self, user: str) -> Csr | None:
        position = self._served.user_positions.get(user)
        if position is None:
            return None
        X = self._served.histories
        own = slice(int(X.indptr[position]), int(X.indptr[position + 1]))
        return one_row(X.indices[own], X.data[own], self.n_items)

    def _item(self, item: str) -> int:
        position = self._served.item_positions.get(item)
        if position is None:
            raise UnknownItem(f"the model does not know the item {shown(item)}")
        return position

    def _name(self, position: int) -> str:
        return str(self._served.item_ids[position])


def _check_length(n: int) -> None:
    if not 1 <= n <= MAX_LIST:
        raise InvalidQuestion(f"n must lie between 1 and {MAX_LIST:,}, found {n}")
