"""The components of many K from one pass each over the pairs and the triples.

The moments are summed once, through an anchor as wide as the largest K. A smaller K is the same
decomposition of the same sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.interactions import RowsName
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor, sum_users
from mom_pipeline.core.moments.estimators import Estimator, EstimatorName
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.ranking.memberships import Personalization


@dataclass(frozen=True)
class NestedMoments:
    """What one estimator makes of one kind of rows, for every K up to the largest."""

    anchor: Anchor
    sums: AnchoredSums
    largest: int
    seed: int

    @classmethod
    def from_users(
        cls, users: Users, name: EstimatorName, rows: RowsName, n_components: int, seed: int
    ) -> Self:
        """Visit all users for the largest K."""
        estimator = Estimator.from_name(name, rows=rows)
        settings = MomentSettings(estimator, n_components, n_components, seed)
        anchor = fix_anchor(users, settings)
        return cls(anchor, sum_users(users, anchor, settings), n_components, seed)

    @cached_property
    def supported(self) -> int:
        """The largest K that the second moment supports."""
        return whiten(self.sums, self.largest, dtype=self.anchor.basis.dtype).n_components

    def model(self, n_components: int, personalization: Personalization) -> FittedModel:
        """Return the model of K components, from the sums alone."""
        settings = DecomposeSettings(n_components, seed=self.seed)
        components = decompose(self.anchor, self.sums, settings)
        return FittedModel(
            item_probs=components.item_probs,
            weights=components.weights,
            popularity=self.sums.first.popularity,
            personalization=personalization,
            rows=self.anchor.estimator.rows,
        )


def sizes(largest: int, n_users: int, current: int, wanted: Sequence[int] = ()) -> Iterator[int]:
    """The K to try: those that are wanted, or powers of two up to sqrt(users), and the present."""
    chosen = set(wanted) or {2**n for n in range(2, 8) if 4**n <= n_users}
    yield from sorted(k for k in chosen | {current} if k <= largest)
