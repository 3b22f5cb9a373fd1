"""How stable components are: between two halves of the users, and between two days.

Moments are sums over users, so the sums over one half are kept beside the total, and the other
half is the difference. Both are whitened and decomposed inside the span of the anchor, each from
a start of its own: a random one on the anchor's day, later what the half itself had there.
Nothing here is of the size of the users or of the items.

A high agreement says that a component is not an accident of the sample. It does not say that
it is the truth: what biases an estimator biases both halves alike.
"""

from dataclasses import dataclass, replace

import numpy as np

from mom_pipeline.core.algorithm.decomposition import (
    decompose_simultaneously,
    match_columns,
    unit_columns,
)
from mom_pipeline.core.algorithm.whitening import whiten, whitened_tensor
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

# A component on which the halves agree less (0: not at all, 1: the same) may be an accident.
MIN_AGREEMENT = 0.5
# Single precision: an agreement of three digits is looked at.
_DTYPE, _TOLERANCE = np.float32, 1e-6
# The noise of a rare item that one half has alone weighs twice as much there, and may outrank a
# component: it is looked for among so many directions more, and counts if it is this near.
_SPARE, _UNMISTAKABLE = 4, 0.9


@dataclass(frozen=True)
class SplitHalf:
    """What two halves of the users say of the components of the full model."""

    agreement: Float64  # (K,), in [0, 1]
    components: Float64  # (2, K', K) the counterpart in either half, zeros for none


def split_half(
    sums: AnchoredSums, components: Float64, seed: int, *, starts: Array | None = None
) -> SplitHalf:
    """Tell for every component how well the two halves agree on it.

        agreement_k = max(0, cos(mu_k of one half, mu_k of the other))

    sums: of everyone, with those of a half beside them.
    components: (K', K) those of the full model in the coordinates of the basis; each takes from
    either half the component that is nearest (Hungarian), none if the half has too few: then it
    is 0. The basis is orthonormal, so the cosine is that in the scaled item space.
    starts: (2, K', K) where the decompositions of the halves start from; None for random ones.
    """
    if sums.half is None:
        raise InvalidInteractions("these sums were made without telling the halves apart")
    halves = sums.half, replace(sums, item_pairs=None) - sums.half
    rngs = np.random.default_rng(seed).spawn(2)

    def counterparts(i: int) -> Float64:
        return _counterparts(halves[i], components, rngs[i], None if starts is None else starts[i])

    one, two = map_blocks(counterparts, range(2))
    return SplitHalf(np.clip(_cosines(one, two), 0.0, 1.0), np.stack([one, two]))


def _counterparts(
    half: AnchoredSums, components: Float64, rng: np.random.Generator, start: Array | None
) -> Float64:
    """Return the component of the half for each of those given, (K', K); zeros for none."""
    K = components.shape[1]
    own = _nearest(half, K, components, rng, start)
    if (nearness := _cosines(own, components)).min() < _UNMISTAKABLE:
        more = _nearest(half, K + _SPARE, components, rng, start)
        outranked = (nearness < _UNMISTAKABLE) & (_cosines(more, components) >= _UNMISTAKABLE)
        own[:, outranked] = more[:, outranked]
    return own


def _nearest(
    half: AnchoredSums, k: int, components: Float64, rng: np.random.Generator, start: Array | None
) -> Float64:
    """Return what the first k directions of the half have for each component, (K', K)."""
    nearest = np.zeros_like(components)
    try:
        whitening = whiten(half, k, dtype=np.dtype(np.float64))
    except InvalidInteractions:
        return nearest
    T = whitened_tensor(half, whitening, _DTYPE)
    if start is not None:
        start = (whitening.factors.T @ start[:, start.any(axis=0)]).astype(_DTYPE)
    vectors = decompose_simultaneously(T, rng, start=start, n_starts=1, tol=_TOLERANCE).vectors
    own = whitening.inverse @ vectors
    ours, theirs = match_columns(own, components)
    nearest[:, theirs] = own[:, ours]
    return nearest


def _cosines(one: Float64, two: Float64) -> Float64:
    return np.asarray((unit_columns(one) * unit_columns(two)).sum(axis=0))


def drift(item_probs: Array, earlier: Array) -> Float64:
    """Total variation 1/2 sum_y |O_yk - O'_yk| from earlier components, (K,); 1 for a new one."""
    K, D = item_probs.shape[1], max(len(item_probs), len(earlier))
    now, before = padded(item_probs, D), padded(earlier, D)
    shared = min(K, before.shape[1])
    moved = np.ones(K)
    moved[:shared] = np.abs(now[:, :shared] - before[:, :shared]).sum(axis=0) / 2
    return moved


def popularity_drift(item_events: Array, earlier: Array) -> float:
    """Return the total variation distance between the popularities of two days."""

    def shares(events: Array) -> Array:
        return np.asarray(events / max(events.sum(), np.finfo(np.float64).tiny))[:, None]

    return float(drift(shares(item_events), shares(earlier))[0])
