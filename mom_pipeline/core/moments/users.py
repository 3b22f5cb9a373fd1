"""`Users`: rows that are visited in passes, in memory or in parts; and the passes.

The results of a pass over disjoint sets of users add up, so the same pass runs over one matrix in
memory or over shards elsewhere. A pass is an object, so that it can be sent to where the users are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from mom_pipeline.core.interactions import as_binary, rows_at
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.types import Array, Csr

Sum = TypeVar("Sum")

# 2^64 / golden ratio: its multiples are spread evenly, so the halves are equal within one user
# or so, and neighbours, who came together, are parted.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TOP_BIT = np.uint64(63)


@dataclass(frozen=True)
class UserRows:
    """Some users."""

    positions: Array  # (n,) ascending
    X: Csr  # (n, D) their rows
    # (n, D) the day of the last event of every entry; None where not known
    last_days: Csr | None = None


Pass = Callable[[UserRows], Sum]
# Work whose results are read one after another; with rows of something else of the same users.
Visit = Callable[[UserRows, Any], Sum]


class Users(Protocol):
    """All users of a data set, to be visited in passes."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def with_days(self) -> bool:
        """Whether the days of the interactions are known."""
        ...

    def with_rows(self, change: Callable[[Csr], Csr], /) -> "Users":
        """Return the same users with other rows. change: (n, D) -> (n, D), some users at a time."""
        ...

    def once(self) -> "Users":
        """Return the same users, of whose items each counts once."""
        ...

    def add_up(self, work: Pass[Sum], /) -> Sum: ...

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None, /
    ) -> Iterator[Sum]:
        """Yield the results of users (n,), ascending, by parts. along: (N, any) rows beside X."""
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

    def with_rows(self, change: Callable[[Csr], Csr]) -> Self:
        return replace(self, X=change(self.X))

    def once(self) -> Self:
        return self.with_rows(as_binary)

    def add_up(self, work: Pass[Sum]) -> Sum:
        return work(UserRows(np.arange(self.X.shape[0]), self.X, self.last_days))

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        rows = UserRows(np.arange(self.X.shape[0]), self.X, self.last_days)
        yield work(rows_of(rows, users), None if along is None else rows_at(along, users))


@dataclass(frozen=True)
class DayRows:
    """The rows as of a day. X: (N, D).  last_days: (N, D), of the last event of every entry."""

    X: Csr
    last_days: Csr
    version: str


class RowsEngine(Protocol):
    """Who visits the users of a day, and where arrays with their rows lie."""

    def users(self, rows: DayRows, /) -> Users: ...
    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], /) -> Array: ...


class InMemoryEngine:
    """Everything in this process."""

    def users(self, rows: DayRows) -> Users:
        return UsersInMemory(rows.X, rows.last_days)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.empty(shape, dtype)


IN_MEMORY = InMemoryEngine()


def rows_of(rows: UserRows, users: Array) -> UserRows:
    """Return the rows of some users, (n,) positions, ascending; who has none gets an empty one."""
    if len(users) == len(rows.positions) and np.array_equal(users, rows.positions):
        return rows
    index = np.searchsorted(rows.positions, users)
    known = index < len(rows.positions)
    known[known] = rows.positions[index[known]] == users[known]
    index[~known] = len(rows.positions)
    days = None if rows.last_days is None else rows_at(rows.last_days, index)
    return UserRows(users, rows_at(rows.X, index), days)


def in_first_half(users: Array) -> Array:
    """Return whether users, by position, belong to the first half: the same forever."""
    return (spread(users) >> _TOP_BIT).astype(bool)


def spread(users: Array) -> Array:
    """Return a 64-bit number per position, evenly spread also among neighbours."""
    return np.asarray(users.astype(np.uint64) * _GOLDEN)


@dataclass(frozen=True)
class MomentsPass:
    """What the moments are divided by, and the users of each item."""

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
