"""Lift: how much better than popularity a model tells what users took on a new day.

A pair of a user and an item is more likely from the user's components than from popularity alone
if r = P[item | user] / P[item] is above 1. Its odds are r / (1 + r), between 0 and 1, so that no
single pair decides. They are averaged for every user, and then over the users:

    m = mean_u mean_(items of u) r / (1 + r),    lift = m / (1 - m),    1: no better than popularity

Twice: with the components of the user's history, and with those of the other half of what the user
took that day. The first falls when users are given the rows of others, the second when the items
are no longer those that belong together.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.evaluation.usual import Usual
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.moments.users import UserRows, VisitedUsers
from mom_pipeline.core.types import Array, Csr

# Days before that a day is compared with, how many of them it takes, and how many users a day.
RECENT_DAYS = 56
ENOUGH_DAYS = 7
_ENOUGH_USERS = 10
# Spreads below the usual level from which on a day is objected to, and the least spread.
_LIMIT = 3.75
_LEAST_SPREAD = 0.06
_PAIRS_PER_BLOCK = 65_536


@dataclass(frozen=True)
class Estimate:
    """A lift over some users; standard_error: of its logarithm, from the spread of users."""

    value: float
    n_pairs: int
    n_users: int
    standard_error: float

    @classmethod
    def from_odds(cls, odds: Array, users: Array) -> Self:
        """Return m / (1 - m) of the mean m over users; 1 where there are none."""
        if not len(odds):
            return cls(1.0, 0, 0, 0.0)
        _, rows, n_pairs = np.unique(users, return_inverse=True, return_counts=True)
        means = np.bincount(rows, weights=odds) / n_pairs
        m, n = float(means.mean()), len(means)
        error = float(means.std()) / math.sqrt(n) / (m * (1 - m))  # of log(m / (1 - m))
        return cls(m / (1 - m), len(odds), n, error)


@dataclass(frozen=True)
class Lift:
    """The lift of a day: from the users' histories, and from the other half of their day."""

    history: Estimate
    day: Estimate

    @property
    def value(self) -> float:
        return self.history.value

    @property
    def n_users(self) -> int:
        return self.history.n_users

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(Estimate(**values["history"]), Estimate(**values["day"]))


@dataclass(frozen=True)
class LiftVisit:
    """The odds of what some users took, from their histories and from the rest of their day."""

    model: FittedModel

    def __call__(self, rows: UserRows, along: Csr) -> list[tuple[Array, Array]]:
        test, model = along, self.model
        histories = grown(rows.X[:, : model.n_items], test.shape)
        one, other = _halves(test)
        pairs = _odds(model, histories, test), _odds(model, one, other), _odds(model, other, one)
        return [(odds, rows.positions[users]) for odds, users in pairs]


def lift(model: FittedModel, train: VisitedUsers, test: Csr) -> Lift | None:
    """Return how a model did on what users took on a later day.

    train: rows of the model's day.  test: (N', D') pairs of the later day, with newer users and
    items; items that the model does not know are left out. O((pairs + histories) K).
    Returns None when there is no user to say anything of.
    """
    test = _known_pairs(model, test)
    users = np.flatnonzero(np.diff(test.indptr))
    if not len(users):
        return None
    parts = list(train.visit(LiftVisit(model.answering()), users, test))
    history, one, other = (
        [np.concatenate(arrays) for arrays in zip(*own, strict=True)]
        for own in zip(*parts, strict=True)
    )
    both = (np.concatenate(arrays) for arrays in zip(one, other, strict=True))
    result = Lift(Estimate.from_odds(*history), Estimate.from_odds(*both))
    return result if result.history.n_users or result.day.n_users else None


def _known_pairs(model: FittedModel, test: Csr) -> Csr:
    """Return the pairs with items that the model knows, each once, (N', D)."""
    test = test[:, : model.n_items]
    users = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    known = model.popularity[test.indices] > 0
    pairs = (users[known], test.indices[known])
    return sparse.csr_array((np.ones(len(pairs[0])), pairs), shape=(test.shape[0], model.n_items))


def _halves(test: Csr) -> tuple[Csr, Csr]:
    """Cut every user's items in two: the first, third, ... and the others."""
    lengths = np.diff(test.indptr)
    users = np.repeat(np.arange(len(lengths)), lengths)
    odd = (np.arange(test.nnz) - test.indptr[users]) % 2 == 1
    one, other = (
        sparse.csr_array((test.data[part], (users[part], test.indices[part])), shape=test.shape)
        for part in (~odd, odd)
    )
    return one, other


def _odds(model: FittedModel, given: Csr, taken: Csr) -> tuple[Array, Array]:
    """Return r / (1 + r) of what users took, given other items of theirs; and the users."""
    asked = np.flatnonzero((np.diff(taken.indptr) > 0) & (np.diff(given.indptr) > 0))
    P, O, taken = model.memberships(given[asked]), model.smoothed_item_probs, taken[asked]
    rows, items = np.repeat(np.arange(len(asked)), np.diff(taken.indptr)), taken.indices
    odds = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_PER_BLOCK):
        block = slice(start, start + _PAIRS_PER_BLOCK)
        chances = np.einsum("ek,ek->e", P[rows[block]], O[items[block]])
        odds[block] = chances / (chances + model.popularity[items[block]])
    return odds, asked[rows]


def lift_objection(today: Lift | None, recent: Sequence[Lift]) -> str | None:
    """Return what speaks against a day on which a model did far worse than on the days before.

    recent: of the days before, each under the model of its own day before, oldest first.
    Either lift may be far below the usual one, or both together somewhat.
    """
    if today is None:
        return None
    histories = [lift.history for lift in recent[-RECENT_DAYS:]]
    days = [lift.day for lift in recent[-RECENT_DAYS:]]
    by_history, by_day = _distance(today.history, histories), _distance(today.day, days)
    if min(by_history, by_day, (by_history + by_day) / math.sqrt(2)) >= -_LIMIT:
        return None
    return (
        f"the model of the day before told what users took {_words(today.history, histories)} "
        f"from their histories, and {_words(today.day, days)} from the other half of their day: "
        "users may have been given the items of others, or ids may be shifted"
    )


def _distance(today: Estimate, before: Sequence[Estimate]) -> float:
    """Return how many spreads above the usual one a lift is; 0 where too little is known."""
    logs = [math.log(past.value) for past in before if past.n_users >= _ENOUGH_USERS]
    if len(logs) < ENOUGH_DAYS or today.n_users < _ENOUGH_USERS:
        return 0.0
    usual = Usual.from_days(logs, [0] * (len(logs) + 1))
    least_spread = max(_LEAST_SPREAD, today.standard_error)
    return usual.distance(math.log(today.value), least_spread=least_spread)


def _words(today: Estimate, before: Sequence[Estimate]) -> str:
    values = [past.value for past in before]
    return (
        f"{today.value:.2f} times as well as popularity ({today.n_users:,} users; before: "
        f"{min(values):.2f} to {max(values):.2f} times)"
    )
