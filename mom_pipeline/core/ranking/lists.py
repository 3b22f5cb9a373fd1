"""Memberships and lists with reasons, of rows or of users visited part by part."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.ranking.explain import POPULAR, strongest
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.topn import BestItems
from mom_pipeline.core.types import Array, Float64


@dataclass(frozen=True)
class ReasonedLists:
    """Lists of N users, the best first; a short list ends with -1."""

    items: Array  # (N, n), as the scores
    scores: Float64
    kinds: Array  # (N, n), as the causes: see `Reasons`
    causes: Array


def reasoned_lists(
    model: FittedModel, rows: Histories, n: int, *, exclude_seen: bool = True
) -> ReasonedLists:
    """Make the lists of some users; one without a history gets the most popular items."""
    known = np.flatnonzero(rows.lengths)
    N = rows.X.shape[0]
    empty = BestItems.empty(N, n)
    kinds, causes = (np.full(empty.items.shape, value) for value in (POPULAR, -1))
    popular, shares = model.popular(n)
    newcomers = np.setdiff1d(np.arange(N), known)
    empty.items[newcomers, : len(popular)], empty.scores[newcomers, : len(popular)] = (
        popular,
        shares,
    )
    own = rows.block(known)
    best = model.top().best(own, n, exclude_seen=exclude_seen)
    why = strongest(model, own, best)
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


def rows_for(model: FittedModel, rows: UserRows) -> Histories:
    """Return the rows of users as a model reads them: without items that are unknown to it."""
    D, days = model.n_items, rows.last_days
    if rows.X.shape[1] > D:
        return model.histories(rows.X[:, :D], None if days is None else days[:, :D])
    return model.histories(rows.X, days)


@dataclass(frozen=True)
class MembershipsVisit:
    """Computes memberships where the users are."""

    model: FittedModel

    def __call__(self, rows: UserRows, along: None) -> UserMemberships:
        return UserMemberships(rows.positions, rows_for(self.model, rows).memberships)


@dataclass(frozen=True)
class ListsVisit:
    """Makes the lists of users."""

    model: FittedModel
    n: int
    exclude_seen: bool = True

    def __call__(self, rows: UserRows, along: None) -> UserLists:
        own = rows_for(self.model, rows)
        lists = reasoned_lists(self.model, own, self.n, exclude_seen=self.exclude_seen)
        return UserLists(rows.positions, lists, int((own.lengths == 0).sum()))


def memberships_of(model: FittedModel, users: Users, P: Array) -> Array:
    """Write P[component | user] of all users to P, (N, K)."""
    P[:] = 0.0
    for part in users.visit(MembershipsVisit(model.answering()), np.arange(len(P))):
        P[part.users] = part.P
    return P
