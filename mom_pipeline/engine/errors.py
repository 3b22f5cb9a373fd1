"""What can go wrong with shards and with those who work on them."""

from mom_pipeline.core.errors import MomError


class DamagedShard(MomError):
    """A shard is missing, or is not what was written."""


class EngineFailed(MomError):
    """A pass over the shards could not be completed."""


class EngineUnreachable(MomError):
    """There is nobody to work on the shards."""
