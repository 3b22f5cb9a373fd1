"""The one thing that an engine does."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from mom_pipeline.engine.shards import ShardRows, Shards

Sum = TypeVar("Sum")
ShardPass = Callable[[ShardRows], Sum]


class Engine(Protocol):
    """Does the work of a pass on every shard, and adds up what comes back.

    Results are added with `+` in the order of `trees`, which depends on nothing but the number
    of shards: the same shards give the same sum, to the last digit, whoever worked on them.
    """

    def add_up(self, work: ShardPass[Sum], shards: Shards, /) -> Sum: ...
