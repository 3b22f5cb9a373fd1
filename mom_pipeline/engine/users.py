"""Users in shards, for every pass that the method makes."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.moments.passes import SummedSecondMoment
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.moments.users import Pass, SecondMoment, Sum
from mom_pipeline.engine.interface import Engine
from mom_pipeline.engine.shards import Shards


@dataclass(frozen=True)
class ShardedUsers:
    """The users of some shards, visited by an engine. Implements `core.users.Users`."""

    engine: Engine
    shards: Shards

    @property
    def shape(self) -> tuple[int, int]:
        """Return N and D."""
        return self.shards.shape

    def add_up(self, work: Pass[Sum]) -> Sum:
        """Return the result of a pass over all users."""
        return self.engine.add_up(work, self.shards)

    def second_moment(
        self, sums: MomentSums, estimator: Estimator, dtype: type[np.floating]
    ) -> SecondMoment:
        """Return M2, a pass over the shards for every product."""
        return SummedSecondMoment.of(self, sums, estimator, dtype)
