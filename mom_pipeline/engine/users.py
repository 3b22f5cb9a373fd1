"""Users in shards, visited by an engine, for every pass that the method makes.

An engine runs a pass on every shard and adds the results with `+`, in an order that depends on
nothing but the number of shards:

    n results  =  the first 2^m of them, the largest such number below n  +  the rest

and each part again so. The same shards give the same sum to the last digit, whichever result
was ready first; rounding grows with log n, and neighbours are added where they are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from mom_pipeline.core.errors import VisitFailed
from mom_pipeline.core.interactions import as_binary, rows_at
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import (
    Pass,
    SecondMoment,
    SummedSecondMoment,
    UserRows,
    Visit,
    rows_of,
)
from mom_pipeline.core.types import Array, Csr, Float64
from mom_pipeline.engine.shards import ShardRows, Shards, shard_indices

Sum = TypeVar("Sum")
Node = TypeVar("Node")
ShardPass = Callable[[ShardRows], Sum]


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

    def add_up(self, work: ShardPass[Sum], shards: Shards, /) -> Sum: ...
    def visit(
        self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers], /
    ) -> Iterator[Sum]: ...


@dataclass(frozen=True)
class OncePass(Generic[Sum]):
    """A pass over rows in which every item counts once."""

    work: Pass[Sum]

    def __call__(self, rows: UserRows) -> Sum:
        return self.work(replace(rows, X=as_binary(rows.X)))


@dataclass(frozen=True)
class ShardedUsers:
    """The users of some shards, visited by an engine. Implements `core.moments.users.Users`."""

    engine: Engine
    shards: Shards
    each_once: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.shards.shape

    @property
    def with_days(self) -> bool:
        return self.shards.with_days

    def once(self) -> Self:
        """Return the same users, of whose items each counts once."""
        return replace(self, each_once=True)

    def add_up(self, work: Pass[Sum]) -> Sum:
        """Return the sum of a pass over all users."""
        return self.engine.add_up(OncePass(work) if self.each_once else work, self.shards)

    def visit(
        self, work: Visit[Sum], users: Array, along: Array | Csr | None = None
    ) -> Iterator[Sum]:
        """Yield the results of some users, shard by shard."""
        return self.engine.visit(work, self.shards, self._parts(users, along))

    def _parts(self, users: Array, along: Array | Csr | None) -> Iterator[ShardUsers]:
        """Yield which users are visited in each shard; a shard without any is left out."""
        shards = shard_indices(users, len(self.shards.entries))
        order = np.argsort(shards, kind="stable")
        edges = np.searchsorted(shards[order], np.arange(len(self.shards.entries) + 1))
        for index in range(len(self.shards.entries)):
            own = users[order[edges[index] : edges[index + 1]]]
            if len(own):
                yield ShardUsers(index, own, None if along is None else rows_at(along, own))

    def second_moment(
        self,
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating],
        item_scale: Float64 | None = None,
    ) -> SecondMoment:
        """Return M2 as an operator that makes a pass over the shards for every product."""
        return SummedSecondMoment.from_users(self, sums, estimator, dtype, item_scale)


class LocalEngine:
    """Shards one after another in this process: bounded memory, all cores within each shard.

    The next shard is read while the threads of the pass work on this one.
    """

    def add_up(self, work: ShardPass[Sum], shards: Shards) -> Sum:
        """Return the sum of a pass over all shards."""
        return add_in_order(run_pass(work, rows) for rows in _read_ahead(shards))

    def visit(self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers]) -> Iterator[Sum]:
        """Yield the results of the users of each shard."""
        for part in parts:
            yield visit_part(work, shards, part)


def visit_part(work: Visit[Sum], shards: Shards, part: ShardUsers) -> Sum:
    """Visit some users of one shard."""
    rows = shards.read(part.index)
    return run_pass(lambda rows: work(rows_of(rows, part.users), part.along), rows)


def run_pass(work: ShardPass[Sum], rows: ShardRows) -> Sum:
    """Run a pass on a shard. Raises EngineFailed with the shard's name for lack of memory."""
    try:
        return work(rows)
    except MemoryError as error:
        raise EngineFailed(
            f"shard {rows.name} of {len(rows.positions)} users and {rows.X.nnz} pairs does not "
            f"fit into memory ({error or 'no more is available'}); write more, smaller shards"
        ) from error


def _read_ahead(shards: Shards) -> Iterator[ShardRows]:
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(shards.read, 0)
        for index in range(1, len(shards.entries) + 1):
            rows = following.result()
            if index < len(shards.entries):
                following = reader.submit(shards.read, index)
            yield rows


def add_tree(leaves: Sequence[Node], add: Callable[[Node, Node], Node]) -> Node:
    """Add all leaves, of which there is at least one, in the order of the module's docstring."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return add(add_tree(leaves[:left], add), add_tree(leaves[left:], add))


def add_in_order(results: Iterable[Sum]) -> Sum:
    """Add results in the same order as they come, holding only log n of them at a time.

    Results are never written over; only sums that were made here are.
    """
    waiting: list[tuple[int, Sum]] = []
    for result in results:
        level, total = 0, result
        while waiting and waiting[-1][0] == level:
            total = _add(waiting.pop()[1], total, in_place=level > 0)
            level += 1
        waiting.append((level, total))
    total = waiting.pop()[1]
    while waiting:  # their levels are distinct, so each of them is a sum and not a result
        total = _add(waiting.pop()[1], total, in_place=True)
    return total


def _add(left: Any, right: Any, *, in_place: bool) -> Any:
    if in_place and isinstance(left, np.ndarray):
        return np.add(left, right, out=left)
    return left + right
