"""Shards one after another on this machine: bounded memory, all cores within each."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from mom_pipeline.engine.errors import EngineFailed
from mom_pipeline.engine.interface import ShardPass, Sum
from mom_pipeline.engine.shards import ShardRows, Shards
from mom_pipeline.engine.trees import added_as_they_come


class LocalEngine:
    """Reads the next shard while the passes' own threads work on this one."""

    def add_up(self, work: ShardPass[Sum], shards: Shards) -> Sum:
        """Return the sum of the work on every shard."""
        return added_as_they_come(result_of(work, rows) for rows in _read_ahead(shards))


def result_of(work: ShardPass[Sum], rows: ShardRows) -> Sum:
    """Do the work; lack of memory is told with the shard's name."""
    try:
        return work(rows)
    except MemoryError as error:
        raise EngineFailed(
            f"shard {rows.name} of {len(rows.positions)} users and {rows.X.nnz} pairs does not "
            f"fit into memory ({error or 'no more to be had'}); write more, smaller shards"
        ) from error


def _read_ahead(shards: Shards) -> Iterator[ShardRows]:
    with ThreadPoolExecutor(1) as reader:
        following = reader.submit(shards.read, 0)
        for place in range(1, len(shards.entries) + 1):
            rows = following.result()
            if place < len(shards.entries):
                following = reader.submit(shards.read, place)
            yield rows
