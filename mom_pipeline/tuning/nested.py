"""The classes of many K from one pass each over the pairs and the triples.

Whitening takes the leading eigenvectors of M2. Those of a smaller K are the first ones of a
larger K, and with them the whitened tensor is a corner of the larger one:

    W_k = W_K[:, :k],   T_k = T_K[:k, :k, :k]

So only the decomposition and what follows are done for every k.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.algorithm.decomposition import decompose
from mom_pipeline.core.algorithm.recovery import ProjectionName, recover
from mom_pipeline.core.algorithm.whitening import whitening_from
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.linear_algebra.eigenpairs import (
    Eigenpairs,
    guarded_width,
    top_eigenpairs,
    working_precision,
)
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import Estimator, EstimatorName, MomentSums
from mom_pipeline.core.moments.triples import triple_sums
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.ranking.parts import LowPass, popularity_shares
from mom_pipeline.core.types import Csr, Float64


@dataclass(frozen=True)
class NestedMoments:
    """What one estimator makes of the data, for every K up to the largest.

    tensor: (K, K, K) in the whitening of the largest K.
    """

    sums: MomentSums
    item_scale: Float64
    eigenpairs: Eigenpairs
    tensor: Float64
    seed: int

    @classmethod
    def of(cls, X: Csr, name: EstimatorName, n_components: int, seed: int) -> "NestedMoments":
        """Visit all rows of X, (N, D), for the largest K."""
        estimator = Estimator.of(name)
        sums = MomentSums.of(X, estimator)
        if sums.triple_weight <= 0:
            raise InvalidInteractions(
                f"the estimator {name!r} needs users with at least 3 events each, found none"
            )
        dtype = working_precision(n_components, X.shape[1])
        M2 = PairMoments.of(X, sums, estimator, dtype=dtype)
        pairs = top_eigenpairs(M2, n_components, np.random.default_rng(seed))
        W = whitening_from(pairs, n_components).matrix
        T = triple_sums(X, W * M2.item_scale[:, None].astype(dtype), estimator)
        return cls(sums, M2.item_scale, pairs, T / sums.triple_weight, seed)

    @property
    def supported(self) -> int:
        """The largest K that the second moment supports."""
        return len(self.tensor)

    def model(
        self, n_components: int, personalization: Personalization, projection: ProjectionName
    ) -> FittedModel:
        """The model of K classes."""
        whitening = whitening_from(self.eigenpairs, n_components)
        K = whitening.n_components
        decomposition = decompose(self.tensor[:K, :K, :K], np.random.default_rng(self.seed))
        recovery = recover(whitening, decomposition, self.item_scale, projection=projection)
        return FittedModel(
            item_probs=recovery.item_probs,
            weights=recovery.weights,
            popularity=popularity_shares(self.sums.item_users),
            basis=np.empty((len(recovery.item_probs), 0)),
            personalization=personalization,
            pair_ranking=None,
            diagnostics={},
        )

    def low_pass(self, n_components: int) -> LowPass:
        """The span that a daily model of K classes filters by: that of its anchor."""
        vectors = self.eigenpairs.vectors
        width = min(guarded_width(n_components, len(vectors)), vectors.shape[1])
        return LowPass(vectors[:, :width], self.item_scale, np.full(width, np.inf))


def sizes(largest: int, n_users: int, current: int, wanted: Sequence[int] = ()) -> Iterator[int]:
    """The K to try: those that are wanted, or powers of two up to sqrt(users), and the present."""
    chosen = set(wanted) or {2**n for n in range(2, 8) if 4**n <= n_users}
    yield from sorted(k for k in chosen | {current} if k <= largest)
