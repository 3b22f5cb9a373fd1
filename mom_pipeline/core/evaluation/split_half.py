"""Trust in a component: do two halves of the users, each for itself, find it again?

Moments are sums over users, so the sums over one half are kept beside the total, and the other
half is the difference. Both are whitened and decomposed inside the span of the anchor, each from
a start of its own; nothing here is of the size of the users or of the items.

A high agreement says that a component is not an accident of the sample. It does not say that
it is the truth: what biases an estimator biases both halves alike.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from mom_pipeline.core.algorithm.decomposition import decompose_simultaneously, unit_columns
from mom_pipeline.core.algorithm.whitening import whitening_from
from mom_pipeline.core.errors import RankTooLow
from mom_pipeline.core.linear_algebra.eigenpairs import Eigenpairs
from mom_pipeline.core.moments.anchored import Anchor, AnchoredMoments
from mom_pipeline.core.moments.daily import grown
from mom_pipeline.core.moments.halves import in_first_half
from mom_pipeline.core.moments.triples import transformed
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

_TOLERANCE = 1e-8


@dataclass(frozen=True)
class HalfMoments:
    """Second and third moment of one half of the users, seen through the anchor's basis.

    pairs: (K', K').  triples: (K', K', K').  Both are sums over users, not divided by
    pair_weight and triple_weight.
    """

    pairs: Float64
    triples: Float64
    pair_weight: float
    triple_weight: float

    @classmethod
    def of(cls, X: Csr, anchor: Anchor) -> Self:
        """Sum over all users of X."""
        return cls.part_of(AnchoredMoments.of(X, anchor))

    @classmethod
    def part_of(cls, moments: AnchoredMoments) -> Self:
        """Keep what a half is compared by."""
        weights = moments.sums.pair_weight, moments.sums.triple_weight
        return cls(moments.pairs, moments.triples, *weights)

    def __add__(self, other: Self) -> Self:
        return self._combined(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combined(other, -1)

    def _combined(self, other: Self, sign: int) -> Self:
        return type(self)(
            self.pairs + sign * other.pairs,
            self.triples + sign * other.triples,
            self.pair_weight + sign * other.pair_weight,
            self.triple_weight + sign * other.triple_weight,
        )

    def others(self, everyone: AnchoredMoments) -> Self:
        """Return the moments of the other half."""
        return self.part_of(everyone) - self


def half_of(X: Csr, anchor: Anchor) -> HalfMoments:
    """Sum over the first half of all users: one pass over their rows."""
    return HalfMoments.of(X[in_first_half(np.arange(X.shape[0]))], anchor)


def updated_half(
    yesterday: HalfMoments, before: Csr, X: Csr, changed: Array, anchor: Anchor
) -> HalfMoments:
    """Subtract the old rows of the changed users of the half and add their new ones.

    before, X: yesterday's and today's rows.  changed: positions of users.
    """
    ours = changed[in_first_half(changed)]
    old = HalfMoments.of(grown(before, X.shape)[ours], anchor)
    return yesterday - old + HalfMoments.of(X[ours], anchor)


def split_half_agreement(
    everyone: AnchoredMoments, half: HalfMoments, components: Float64, seed: int
) -> Float64:
    """Return for every component how well the two halves agree on it, (K,), in [0, 1].

        agreement_k = max(0, cos(mu_k of one half, mu_k of the other))

    components: (K', K) those of the full model in the coordinates of the basis; each takes from
    either half the component that is nearest (Hungarian), none if the half has too few: then it
    is 0. The basis is orthonormal, so the cosine is that in the scaled item space.
    """
    rngs = np.random.default_rng(seed).spawn(2)
    halves = zip((half, half.others(everyone)), rngs, strict=True)
    one, two = map_blocks(lambda part: _counterparts(part[0], components, part[1]), halves)
    cosines = (unit_columns(one) * unit_columns(two)).sum(axis=0)
    return np.asarray(np.clip(cosines, 0.0, 1.0))


def _counterparts(half: HalfMoments, components: Float64, rng: np.random.Generator) -> Float64:
    """Return the component of the half for each of those given, (K', K); zeros for none."""
    counterparts = np.zeros_like(components)
    if half.pair_weight <= 0 or half.triple_weight <= 0:
        return counterparts
    values, E = np.linalg.eigh((half.pairs + half.pairs.T) / 2 / half.pair_weight)
    pairs = Eigenpairs(values[::-1], E[:, ::-1], passes=0, residual=0.0)
    try:
        whitening = whitening_from(pairs, components.shape[1])
    except RankTooLow:
        return counterparts
    F = whitening.matrix
    T = transformed(half.triples, F)
    decomposed = decompose_simultaneously(T / half.triple_weight, rng, n_starts=1, tol=_TOLERANCE)
    found = whitening.inverse @ decomposed.vectors
    overlap = unit_columns(found).T @ unit_columns(components)
    ours, theirs = linear_sum_assignment(-overlap)
    counterparts[:, theirs] = found[:, ours]
    return counterparts
