"""Pairs of users and items that a query finds, read a block at a time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.types import Array
from mom_pipeline.warehouse.connection import Connection, scalar

# Pairs that are in the memory of this process at a time.
_PAIRS_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class StoredPairs:
    """Pairs in a temporary table of DuckDB, which `warehouse.memory_limit` bounds."""

    connection: Connection
    n: int

    def blocks(self, *columns: str) -> Iterator[tuple[Array, ...]]:
        """Yield some columns of all pairs, a block of pairs after the other."""
        for start in range(0, self.n, _PAIRS_PER_BLOCK):
            block = self.connection.execute(
                f"SELECT {', '.join(columns)} FROM stored_pairs "  # noqa: S608 - names of the code
                "WHERE rowid >= $start AND rowid < $stop",
                {"start": start, "stop": start + _PAIRS_PER_BLOCK},
            ).fetchnumpy()
            yield tuple(np.asarray(block[column]) for column in columns)


@contextmanager
def stored_pairs(
    connection: Connection, query: str, parameters: Mapping[str, object]
) -> Iterator[StoredPairs]:
    """Keep the pairs that a query finds, in its order, until the block ends.

    Not within a transaction: there DuckDB does not count the rows of a table from 0.
    """
    connection.execute(f"CREATE TEMP TABLE stored_pairs AS {query}", dict(parameters))
    try:
        yield StoredPairs(connection, scalar(connection, "SELECT count(*) FROM stored_pairs"))
    finally:
        connection.execute("DROP TABLE stored_pairs")
