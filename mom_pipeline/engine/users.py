"""Users in shards, and the order in which an engine adds what a pass makes of each.

An engine runs a pass on every shard and adds the results with `+`, in an order that depends on
nothing but the number of shards:

    n results  =  the first 2^m of them, the largest such number below n  +  the rest

and each part again so. The same shards give the same sum to the last digit, whichever result
was ready first; rounding grows with log n, and neighbours are added where they are.
"""

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from mom_pipeline.core.errors import MomError, VisitFailed
from mom_pipeline.core.interactions import as_binary, rows_at
from mom_pipeline.core.moments.users import Pass, UserRows, Visit, rows_of
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.engine.shards import Shards, shard_indices

Sum = TypeVar("Sum")
SMALLER = "write more, smaller shards, or give more memory"


class EngineFailed(VisitFailed):
    """A pass over the shards could not be completed."""


@dataclass(frozen=True)
class ShardUsers:
    """Users of one shard to be visited. users: (n,) positions.  along: (n, any) or None."""

    index: int
    users: Array
    along: Array | Csr | None


class Engine(Protocol):
    """Runs a pass on every shard and adds the results up, or yields them one after another."""

    def add_up(self, work: Pass[Sum], shards: Shards, /) -> Sum: ...
    def visit(
        self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers], /
    ) -> Iterator[Sum]: ...


@dataclass(frozen=True)
class ChangedRowsPass(Generic[Sum]):
    """A pass over rows that are changed before it, one change after another."""

    work: Pass[Sum]
    changes: tuple[Callable[[Csr], Csr], ...]

    def __call__(self, rows: UserRows) -> Sum:
        X = rows.X
        for change in self.changes:
            X = change(X)
        return self.work(replace(rows, X=X))


@dataclass(frozen=True)
class ShardedUsers:
    """The users of some shards, visited by an engine. Implements `core.moments.users.Users`."""

    engine: Engine
    shards: Shards
    changes: tuple[Callable[[Csr], Csr], ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.shards.shape

    @property
    def with_days(self) -> bool:
        return self.shards.with_days

    def with_rows(self, change: Callable[[Csr], Csr]) -> Self:
        """Return the same users, whose rows are changed wherever a pass reads them."""
        return replace(self, changes=(*self.changes, change))

    def once(self) -> Self:
        """Return the same users, of whose items each counts once."""
        return self.with_rows(as_binary)

    def add_up(self, work: Pass[Sum]) -> Sum:
        """Return the sum of a pass over all users."""
        return self.engine.add_up(ChangedRowsPass(work, self.changes), self.shards)

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        """Yield the results of some users, shard by shard."""
        return self.engine.visit(work, self.shards, self._parts(users, along))

    def _parts(self, users: Array, along: Array | Csr | None) -> Iterator[ShardUsers]:
        """Yield which users are visited in each shard that has some of them."""
        shards = shard_indices(users, len(self.shards.entries))
        for index in np.unique(shards):
            own = users[shards == index]
            yield ShardUsers(int(index), own, None if along is None else rows_at(along, own))


class LocalEngine:
    """Shards one after another in this process: bounded memory, all cores within each shard."""

    def add_up(self, work: Pass[Sum], shards: Shards) -> Sum:
        """Return the sum of a pass over all shards."""
        results = (on_shard(work, shards, index) for index in range(len(shards.entries)))
        return add_in_order(results, operator.add)

    def visit(self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers]) -> Iterator[Sum]:
        """Yield the results of the users of each shard."""
        for part in parts:
            yield on_shard(work, shards, part.index, part)


def on_shard(
    work: Callable[..., Sum], shards: Shards, index: int, part: ShardUsers | None = None
) -> Sum:
    """Run a pass on a shard, or visit a part of it; names the shard in whatever goes wrong."""
    try:
        rows = shards.read(index)
        return work(rows) if part is None else work(rows_of(rows, part.users), part.along)
    except MomError:
        raise
    except Exception as error:
        entry = shards.entries[index]
        advice = f"; {SMALLER}" if isinstance(error, MemoryError) else ""
        raise EngineFailed(
            f"{entry.name} of {entry.n_users} users and {entry.n_pairs} interactions: "
            f"{type(error).__name__}: {error}{advice}"
        ) from error


def add_in_order(results: Iterable[Sum], add: Callable[[Any, Any], Any]) -> Sum:
    """Add results as they come, in the order of the module's docstring, holding log n of them."""
    waiting: list[tuple[int, Any]] = []
    for result in results:
        level, total = 0, result
        while waiting and waiting[-1][0] == level:
            level, total = level + 1, add(waiting.pop()[1], total)
        waiting.append((level, total))
    total = waiting.pop()[1]
    while waiting:
        total = add(waiting.pop()[1], total)
    return total
