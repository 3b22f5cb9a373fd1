"""Memberships and lists with reasons, of rows or of users visited part by part."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.ranking.explain import POPULAR, strongest
from mom_pipeline.core.ranking.recency import aged
from mom_pipeline.core.ranking.score import NO_AGEING
from mom_pipeline.core.ranking.topn import BestItems, most_popular
from mom_pipeline.core.types import Array, Csr, Float64


@dataclass(frozen=True)
class ReasonedLists:
    """Lists of N users, the best first; a short list ends with -1.

    items, scores: (N, n).  kinds, causes: (N, n), as in `Reasons`.
    """

    items: Array
    scores: Float64
    kinds: Array
    causes: Array


def reasoned_lists(
    X: Csr, P: Array, model: FittedModel, n: int, *, exclude_seen: bool = True
) -> ReasonedLists:
    """Make the lists of some users; one without a history gets the most popular items.

    X: (N, D).  P: (N, K), the memberships of the same users.
    """
    known = np.diff(X.indptr) > 0
    empty = BestItems.empty(X.shape[0], n)
    kinds, causes = (np.full(empty.items.shape, value) for value in (POPULAR, -1))
    popular, shares = most_popular(np.where(model.candidates, model.popularity, 0.0), n)
    empty.items[~known, : len(popular)], empty.scores[~known, : len(popular)] = popular, shares
    own, P = X[known], P[known]
    best = model.best(own, n, exclude_seen=exclude_seen, memberships=P)
    why = strongest(model, own, P, best)
    empty.items[known], empty.scores[known] = best.items, best.scores
    kinds[known], causes[known] = why.kinds, why.causes
    return ReasonedLists(empty.items, empty.scores, kinds, causes)


@dataclass(frozen=True)
class UserMemberships:
    """P[component | user] of some users. users: (n,) positions.  P: (n, K)."""

    users: Array
    P: Array


@dataclass(frozen=True)
class UserLists:
    """Lists of some users. users: (n,) positions.  n_newcomers: of them, without a history."""

    users: Array
    lists: ReasonedLists
    n_newcomers: int


@dataclass(frozen=True)
class HistoryOf:
    """How a model reads the rows of users: aged by a half-life, without items unknown to it."""

    model: FittedModel
    half_life: float = NO_AGEING

    def answering(self) -> Self:
        """Return the same without what the model's answers do not need."""
        return replace(self, model=self.model.answering())

    def __call__(self, rows: UserRows) -> Csr:
        return aged(rows.X, rows.last_days, self.half_life)[:, : self.model.n_items]


@dataclass(frozen=True)
class MembershipsVisit:
    """Computes memberships where the users are."""

    history: HistoryOf

    def __call__(self, rows: UserRows, along: None) -> UserMemberships:
        X = self.history(rows)
        return UserMemberships(rows.positions, self.history.model.memberships(X))


@dataclass(frozen=True)
class ListsVisit:
    """Makes the lists of users. along: their memberships, computed where it is None."""

    history: HistoryOf
    n: int
    exclude_seen: bool = True

    def __call__(self, rows: UserRows, along: Array | None) -> UserLists:
        X, model = self.history(rows), self.history.model
        P = model.memberships(X) if along is None else np.asarray(along)
        lists = reasoned_lists(X, P, model, self.n, exclude_seen=self.exclude_seen)
        return UserLists(rows.positions, lists, int((np.diff(X.indptr) == 0).sum()))


def refresh_memberships(
    history: HistoryOf, users: Users, visited: Array, previous: Array | None, P: Array
) -> Array:
    """Write P[component | user] of all users to P, (N, K): new for `visited`, else as before.

    visited: (n,) positions, ascending.  previous: (N', K) of the first N' users, None for nobody.
    """
    known = 0 if previous is None else len(previous)
    if previous is not None:
        P[:known] = previous
    P[known:] = 0.0
    for part in users.visit(MembershipsVisit(history.answering()), visited):
        P[part.users] = part.P
    return P


def visit_lists(
    history: HistoryOf, users: Users, visited: Array, P: Array, n: int, *, exclude_seen: bool = True
) -> Iterator[UserLists]:
    """Yield the lists of some users, part by part. visited: (n,), ascending.  P: (N, K) of all."""
    return users.visit(ListsVisit(history.answering(), n, exclude_seen), visited, P)
