"""Lift: how much more likely than by popularity a model held what users took on a new day."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from mom_pipeline.core.evaluation.usual import Usual
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import grown
from mom_pipeline.core.types import Array, Csr, Float64

# Days before that a day is compared with, and how many of them it takes to say anything.
RECENT_DAYS = 28
ENOUGH_DAYS = 7
# Fewer users than these say nothing.
_ENOUGH_USERS = 10
# A pair is never taken to be less likely than this share of its popularity: one impossible pair
# does not decide.
_LEAST_RATIO = 0.05
_LEAST_SPREAD = 0.05
_LIMIT = 5.0
_PAIRS_PER_BLOCK = 65_536


@dataclass(frozen=True)
class Lift:
    """Geometric mean of P[item | user] / P[item] over what the users took; 1: no better.

    Every user counts once.  standard_error: of the value's logarithm, from the spread of users.
    """

    value: float
    n_pairs: int
    n_users: int
    standard_error: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


def lift(model: FittedModel, train: Csr, test: Csr) -> Lift | None:
    """Return the lift of a model on what users with a history took on a later day.

    train: (N, D) rows of the model's day.  test: (N', D') pairs of the later day, with newer users
    and items; what the model does not know is left out. Linear in the pairs: O(pairs K).
    Returns None when no pair is left.
    """
    test = test[:, : model.n_items]
    train = grown(train, test.shape)[: test.shape[0], : model.n_items]
    users = np.flatnonzero((np.diff(test.indptr) > 0) & (np.diff(train.indptr) > 0))
    logs, rows = _log_ratios(model, train[users], test[users])
    if not len(logs):
        return None
    n_pairs = np.bincount(rows)
    of_users = np.bincount(rows, weights=logs)[n_pairs > 0] / n_pairs[n_pairs > 0]
    n = len(of_users)
    error = float(of_users.std(ddof=1)) / n**0.5 if n > 1 else float("inf")
    return Lift(float(np.exp(of_users.mean())), len(logs), n, error)


def _log_ratios(model: FittedModel, train: Csr, test: Csr) -> tuple[Float64, Array]:
    """Return log P[item | user] / P[item] of every pair with a known item, and its row."""
    P, O = model.memberships(train), model.smoothed_item_probs
    rows = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    known = model.popularity[test.indices] > 0
    rows, items = rows[known], test.indices[known]
    logs = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS_PER_BLOCK):
        block = slice(start, start + _PAIRS_PER_BLOCK)
        chances = np.einsum("ek,ek->e", P[rows[block]], O[items[block]])
        ratios = chances / model.popularity[items[block]]
        logs[block] = np.log(np.maximum(ratios, _LEAST_RATIO))
    return logs, rows


def lift_objection(today: Lift | None, recent: Sequence[Lift]) -> str | None:
    """Return what speaks against a day on which a model did far worse than on the days before.

    recent: of the days before, each under the model of its own day before, oldest first.
    """
    recent = [past for past in recent[-RECENT_DAYS:] if past.n_users >= _ENOUGH_USERS]
    if today is None or today.n_users < _ENOUGH_USERS or len(recent) < ENOUGH_DAYS:
        return None
    logs = [math.log(past.value) for past in recent]
    least_spread = max(_LEAST_SPREAD, today.standard_error)
    if (
        Usual.from_days(logs, [0] * (len(logs) + 1)).distance(
            math.log(today.value), least_spread=least_spread
        )
        >= -_LIMIT
    ):
        return None
    low, high = (limit(past.value for past in recent) for limit in (min, max))
    return (
        f"users took what the model of the day before held for {today.value:.2f} times as likely "
        f"as by popularity alone (geometric mean, {today.n_users:,} users); on the {len(recent)} "
        f"days before it was {low:.2f} to {high:.2f} times: users may have been given items of "
        "others, or the ids may be shifted"
    )
