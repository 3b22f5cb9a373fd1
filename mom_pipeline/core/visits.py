"""Memberships and lists of users who are visited part by part, wherever their rows are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.ranking.explain import ReasonedLists, reasoned_lists
from mom_pipeline.core.ranking.recency import aged
from mom_pipeline.core.ranking.score import NO_AGEING
from mom_pipeline.core.types import Array, Csr


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
    """How a model reads the rows of users.

    half_life: see `aged`.  Items that the model does not know yet tell nothing about a user.
    """

    model: FittedModel
    half_life: float = NO_AGEING

    def answering(self) -> Self:
        """Return the same without what the model's answers do not need."""
        return replace(self, model=self.model.answering())

    def __call__(self, rows: UserRows) -> Csr:
        return aged(rows.X, rows.last_days, self.half_life)[:, : self.model.n_items]


@dataclass(frozen=True)
class MembershipsVisit:
    """Asks a model about its users."""

    history: HistoryOf

    def __call__(self, rows: UserRows, along: None) -> UserMemberships:
        X = self.history(rows)
        return UserMemberships(rows.positions, self.history.model.memberships(X))


@dataclass(frozen=True)
class ListsVisit:
    """Makes the lists of users whose memberships are known."""

    history: HistoryOf
    n: int
    exclude_seen: bool = True

    def __call__(self, rows: UserRows, along: Array) -> UserLists:
        X, P, model = self.history(rows), np.asarray(along), self.history.model
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
    history: HistoryOf,
    users: Users,
    visited: Array,
    P: Array,
    n: int,
    *,
    exclude_seen: bool = True,
) -> Iterator[UserLists]:
    """Yield the lists of some users, part by part.

    visited: (n,) positions, ascending.  P: (N, K) of all users.
    """
    return users.visit(ListsVisit(history.answering(), n, exclude_seen), visited, P)
