"""`Users`: rows that are visited in passes, in memory or in parts; and the passes.

A pass is work on the rows of some users; its results over disjoint sets of users add up. So the
same pass runs over one matrix in memory, or over shards that lie elsewhere. A pass is an object
and not a function within a function, so that it can be sent to where the users are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mom_pipeline.core.interactions import as_binary, rows_at
from mom_pipeline.core.linear_algebra.eigenpairs import SymmetricOperator
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.pair_counts import PairCounts
from mom_pipeline.core.moments.pairs import (
    PairMoments,
    gram_product,
    normalised_rows,
    repeated_pairs,
)
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.types import Array, Csr, Float64

Sum = TypeVar("Sum")

# 2^64 / golden ratio: its multiples are spread evenly, so the halves are equal within one user
# or so, and neighbours, who came together, are parted.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TOP_BIT = np.uint64(63)


@dataclass(frozen=True)
class UserRows:
    """Some users. positions: (n,) ascending, of the users among all.  X: (n, D) their rows.

    last_days: (n, D), the day of the last event of every entry of X; None where it is not known.
    """

    positions: Array
    X: Csr
    last_days: Csr | None = None


Pass = Callable[[UserRows], Sum]
# Work whose results are taken one after another; with rows of something else of the same users.
Visit = Callable[[UserRows, Any], Sum]


class SecondMoment(SymmetricOperator, Protocol):
    """M2 in the item space scaled by S, whose diagonal is `item_scale`, (D,)."""

    @property
    def item_scale(self) -> Float64: ...


class VisitedUsers(Protocol):
    """Users whose results are taken one part after another."""

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None, /
    ) -> Iterator[Sum]:
        """Yield the results of some users, a part of them after the other.

        users: (n,) positions, ascending; those without a row have an empty one.  along: (N, any),
        of which the work is given the rows of its users.
        """
        ...


class Users(VisitedUsers, Protocol):
    """All users of a data set, to be visited in passes."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def with_days(self) -> bool:
        """Whether the days of the pairs are known."""
        ...

    def once(self) -> "Users":
        """Return the same users, of whose items each counts once."""
        ...

    def add_up(self, work: Pass[Sum], /) -> Sum: ...
    def second_moment(
        self,
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating],
        item_scale: Float64 | None = None,
        /,
    ) -> SecondMoment:
        """Return M2 as an operator; `item_scale` replaces the scaling computed from the sums."""
        ...


@dataclass(frozen=True)
class UsersInMemory:
    """One matrix. Its rows are not cut up: the passes use all cores by themselves."""

    X: Csr
    last_days: Csr | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def with_days(self) -> bool:
        return self.last_days is not None

    def once(self) -> Self:
        """Return the same users, of whose items each counts once."""
        return replace(self, X=as_binary(self.X))

    def add_up(self, work: Pass[Sum]) -> Sum:
        """Return the result of a pass over all users."""
        return work(UserRows(np.arange(self.X.shape[0]), self.X, self.last_days))

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        """Yield one result, of all the users."""
        rows = UserRows(np.arange(self.X.shape[0]), self.X, self.last_days)
        yield work(rows_of(rows, users), None if along is None else rows_at(along, users))

    def second_moment(
        self,
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating],
        item_scale: Float64 | None = None,
    ) -> SecondMoment:
        """Return M2 with the scaled rows kept, since every product needs them."""
        return PairMoments.from_rows(self.X, sums, estimator, item_scale=item_scale, dtype=dtype)


def rows_of(rows: UserRows, users: Array) -> UserRows:
    """Return the rows of some users; who is not among `rows` has an empty one.

    users: (n,) positions, ascending.
    """
    if len(users) == len(rows.positions) and np.array_equal(users, rows.positions):
        return rows
    index = np.searchsorted(rows.positions, users)
    known = index < len(rows.positions)
    known[known] = rows.positions[index[known]] == users[known]
    index[~known] = len(rows.positions)
    days = None if rows.last_days is None else rows_at(rows.last_days, index)
    return UserRows(users, rows_at(rows.X, index), days)


def in_first_half(users: Array) -> Array:
    """Tell for positions of users whether they belong to the first half, the same forever."""
    return (spread(users) >> _TOP_BIT).astype(bool)


def spread(users: Array) -> Array:
    """Return a 64-bit number per position, evenly spread also among neighbours."""
    return np.asarray(users.astype(np.uint64) * _GOLDEN)


@dataclass(frozen=True)
class MomentsPass:
    """The first moment, and what the others are divided by."""

    estimator: Estimator

    def __call__(self, rows: UserRows) -> MomentSums:
        return MomentSums.from_rows(rows.X, self.estimator)


@dataclass(frozen=True)
class AnchoredPass:
    """All moments seen through an anchor; halves: those of the first half of the users as well."""

    anchor: Anchor
    halves: bool = False

    def __call__(self, rows: UserRows) -> AnchoredSums:
        in_half = in_first_half(rows.positions) if self.halves else None
        return AnchoredSums.from_rows(rows.X, self.anchor, in_half=in_half)


@dataclass(frozen=True)
class PairsPass:
    """The pairs of items; see `PairCounts`."""

    user_exponent: float
    uncounted: Array

    def __call__(self, rows: UserRows) -> PairCounts:
        return PairCounts.from_rows(rows.X, self.user_exponent, uncounted=self.uncounted)


@dataclass(frozen=True)
class PairProductPass:
    """What some users add to the product R^T R Q.  Q: (D, columns)."""

    Q: Array
    pair_weight: float
    estimator: Estimator
    item_scale: Float64

    def __call__(self, rows: UserRows) -> Array:
        R = normalised_rows(
            rows.X, self.pair_weight, self.estimator, self.item_scale, self.Q.dtype.type
        )
        return gram_product(R, self.Q)


@dataclass(frozen=True)
class WrittenOutPass:
    """What some users add to R^T R, (D, D)."""

    pair_weight: float
    estimator: Estimator
    item_scale: Float64
    dtype: type[np.floating]

    def __call__(self, rows: UserRows) -> Array:
        R = normalised_rows(rows.X, self.pair_weight, self.estimator, self.item_scale, self.dtype)
        return np.asarray((R.T @ R).toarray())


@dataclass(frozen=True)
class SummedSecondMoment:
    """M2 of users who are visited anew for every product with it.

    diagonal: (D,), the pairs of an event with itself; zero unless the draws are distinct.
    """

    users: Users
    pair_weight: float
    estimator: Estimator
    item_scale: Float64
    diagonal: Array

    @classmethod
    def from_users(
        cls,
        users: Users,
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating],
        item_scale: Float64 | None = None,
    ) -> Self:
        """Prepare the operator; no user is visited yet."""
        s = estimator.item_scale(sums.item_users) if item_scale is None else item_scale
        diagonal = repeated_pairs(sums, estimator, s).astype(dtype)
        return cls(users, sums.pair_weight, estimator, s, diagonal)

    @property
    def n_items(self) -> int:
        return len(self.diagonal)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.diagonal.dtype

    @cached_property
    def explicit(self) -> Array:
        """M2 as a matrix, (D, D): one pass."""
        work = WrittenOutPass(self.pair_weight, self.estimator, self.item_scale, self.dtype.type)
        return self.users.add_up(work) - np.diag(self.diagonal)

    def apply(self, Q: Array) -> Array:
        """Return M2 @ Q, one pass over the users. Q: (D, columns)."""
        work = PairProductPass(Q, self.pair_weight, self.estimator, self.item_scale)
        G = self.users.add_up(work)
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G
