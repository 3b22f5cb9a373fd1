"""How many groups the users support: directions of the second moment that are clear of chance.

    M2 of everyone = signal + noise,    (M2 of a half - M2 of the other) / 2 = noise of the same law

So an eigenvalue of M2 is signal where it exceeds the norm of that difference, beside the directions
that are signal already. The basis of a model cannot tell: its last columns were chosen where the
noise of both halves happens to agree.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.linear_algebra.tall import cross
from mom_pipeline.core.moments.anchored import Anchor
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, operator
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import column_sums, events_per_user
from mom_pipeline.core.moments.users import (
    MomentsPass,
    Pass,
    Sum,
    UserRows,
    Users,
    Visit,
    in_first_half,
    spread,
)
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr

# Distinct draws of items, each once: an item's pairs with itself are directions too, but no groups.
# Every user and item weighs alike: scaled up, rare items are noise without end.
_ESTIMATOR = Estimator.from_name("unbiased", rows="binary")
# Groups that are looked for at most.
MOST_GROUPS = 64
# The power method on the difference of the halves, and how often found directions are taken out.
_PASSES, _COLUMNS, _ROUNDS = 8, 8, 5
_SHARES = (8, 4, 2, 1)
# The halves of `in_first_half` are sixteen of these groups each.
N_GROUPS, _FIRST_BITS = 32, np.uint64(59)


def hash_groups(users: Array) -> Array:
    """Return the group of users, by position, (n,) in 0..31: the same forever."""
    return (spread(users) >> _FIRST_BITS).astype(np.int64)


@dataclass(frozen=True)
class SupportCurve:
    """How many groups an eighth, a quarter, a half and all of the users support."""

    users: tuple[int, ...]  # rising, as the groups
    groups: tuple[int, ...]
    most: int  # how many were looked for; as many are "at least"

    @property
    def limit(self) -> int | None:
        """How many groups may be shown; None where there may be more than were looked for."""
        return self.groups[-1] if self.groups[-1] < self.most else None

    @property
    def of_twice(self) -> int:
        """What twice as many users would support, by what the last doubling brought."""
        return min(2 * self.groups[-1] - min(self.groups[-2:]), self.most)


def support_curve(users: Users, *, most: int = MOST_GROUPS, seed: int = 0) -> SupportCurve:
    """Count the groups of some users, twice as many each time; the mean of two parts of a size."""
    n_users, counted = [], [0]
    for share in _SHARES:
        firsts = range(0, share, max(share // 2, 1))
        parts = [SomeUsers(users, tuple(range(first, N_GROUPS, share))) for first in firsts]
        found = [supported_groups(part, most=most, seed=seed) for part in parts]
        counted.append(max(round(sum(found) / len(found)), counted[-1]))
        n_users.append(parts[0].add_up(MomentsPass(_ESTIMATOR)).n_users)
    return SupportCurve(tuple(n_users), tuple(counted[1:]), most)


def supported_groups(users: Users, *, most: int = MOST_GROUPS, seed: int = 0) -> int:
    """Return how many directions of M2 stand clear of the difference of two halves; 0 for none."""
    K = min(most, *users.shape)
    settings = MomentSettings(_ESTIMATOR, K, K, seed=seed, dtype=np.float64)
    try:
        anchor = fix_anchor(users, settings)
    except (InvalidInteractions, InvalidSetting):
        return 0
    sums, U = users.add_up(MomentsPass(_ESTIMATOR)), anchor.basis
    with one_blas_thread():
        values, E = np.linalg.eigh(cross(U, operator(users, anchor, sums).apply(U)))
        U, values, found = U @ E[:, ::-1], values[::-1], 0
        for _ in range(_ROUNDS):
            noise = _noise(users, anchor, U[:, :found], np.random.default_rng(seed))
            before, found = found, int((values > noise / sums.pair_weight).sum())
            if found <= before:
                break
    return found


def _noise(users: Users, anchor: Anchor, known: Array, rng: np.random.Generator) -> float:
    """Return the norm of the halves' difference beside known directions, times sum omega."""

    def beside(Q: Array) -> Array:
        return np.asarray(Q - known @ (known.T @ Q))

    Q, norm = rng.standard_normal((users.shape[1], _COLUMNS)), 0.0
    for _ in range(_PASSES):
        Q = np.linalg.qr(beside(Q))[0]
        Q = beside(users.add_up(partial(_difference_times, Q, anchor.estimator)))
        norm = float(np.linalg.norm(Q, 2))
    return norm


def _difference_times(Q: Array, estimator: Estimator, rows: UserRows) -> Array:
    """Return (sum of a x x.T over the first half - over the second, distinct draws) Q."""
    X = estimator.weighted(rows.X)
    a = estimator.term_weights(events_per_user(X), 2)[0]
    a *= np.where(in_first_half(rows.positions), 1.0, -1.0)
    return np.asarray(X.T @ (a[:, None] * (X @ Q)) - column_sums(X, a)[:, None] * Q)


@dataclass(frozen=True)
class SomeUsers:
    """The users of some hash groups of others."""

    users: Users
    groups: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.users.shape

    @property
    def with_days(self) -> bool:
        return self.users.with_days

    def with_rows(self, change: Callable[[Csr], Csr]) -> Self:
        return replace(self, users=self.users.with_rows(change))

    def once(self) -> Self:
        return replace(self, users=self.users.once())

    def add_up(self, work: Pass[Sum]) -> Sum:
        return self.users.add_up(_OfGroups(work, self.groups))

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        return self.users.visit(work, users, along)


@dataclass(frozen=True)
class _OfGroups:
    """A pass over the users of some hash groups alone."""

    work: Pass[Any]
    groups: tuple[int, ...]

    def __call__(self, rows: UserRows) -> Any:
        own = np.isin(hash_groups(rows.positions), self.groups)
        days = None if rows.last_days is None else rows.last_days[own]
        return self.work(UserRows(rows.positions[own], rows.X[own], days))
