"""Map over shards of users and add up: on this machine, or on a Dask cluster."""

from mom_pipeline.engine.errors import DamagedShard, EngineFailed, EngineUnreachable
from mom_pipeline.engine.interface import Engine
from mom_pipeline.engine.local import LocalEngine
from mom_pipeline.engine.shard_writing import ShardWriter, write_shards
from mom_pipeline.engine.users import ShardedUsers
from mom_pipeline.engine.shards import Shards

__all__ = [
    "DamagedShard",
    "Engine",
    "EngineFailed",
    "EngineUnreachable",
    "LocalEngine",
    "ShardWriter",
    "ShardedUsers",
    "Shards",
    "write_shards",
]
