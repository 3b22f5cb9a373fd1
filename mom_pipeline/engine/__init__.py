"""Passes over shards of users, in this process or on a Dask cluster; see README.md here."""

from mom_pipeline.engine.shards import DamagedShard, Shards, ShardWriter, StoreFailed, write_shards
from mom_pipeline.engine.users import Engine, EngineFailed, LocalEngine, ShardedUsers

__all__ = [
    "DamagedShard",
    "Engine",
    "EngineFailed",
    "LocalEngine",
    "ShardWriter",
    "ShardedUsers",
    "Shards",
    "StoreFailed",
    "write_shards",
]
