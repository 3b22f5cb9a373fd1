"""The order in which the results of shards are added.

    n results  =  the first 2^m of them, the largest such number below n  +  the rest

and each part again so. Rounding then grows with log n, neighbours are added where they are, and
the order does not depend on which result was ready first.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

Node = TypeVar("Node")
Sum = TypeVar("Sum")


def added(left: Any, right: Any) -> Any:
    """Return left + right; an array on the left is written over."""
    if isinstance(left, np.ndarray):
        return np.add(left, right, out=left)
    return left + right


def as_tree(leaves: Sequence[Node], add: Callable[[Node, Node], Node]) -> Node:
    """Add up all leaves, of which there is at least one."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return add(as_tree(leaves[:left], add), as_tree(leaves[left:], add))


def added_as_they_come(results: Iterable[Sum]) -> Sum:
    """Add up in the same order, holding only log n results at a time."""
    waiting: list[tuple[int, Sum]] = []
    for result in results:
        level = 0
        while waiting and waiting[-1][0] == level:
            result = added(waiting.pop()[1], result)
            level += 1
        waiting.append((level, result))
    total = waiting.pop()[1]
    while waiting:
        total = added(waiting.pop()[1], total)
    return total
