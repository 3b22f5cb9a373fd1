"""What two halves of the users agree on by chance: a group is shown where they agree better."""

import numpy as np

from mom_pipeline.core.algorithm.decomposition import unit_columns
from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Float64

_CHANCE_DRAWS, _CLEAR = 20, 0.95


def chance_agreement(sums: AnchoredSums, components: Float64, seed: int) -> float:
    """Return what 19 of 20 components of halves with nothing in common do not agree better than.

    Their second moments are those of the two halves, and their components E diag(s)^(1/2) Q with
    random rotations Q, 20 pairs of them.
    sums: with those of a half.  components: (K', K) of everyone; each takes the nearest of a half.
    Of halves that are too small nothing is clear: 1.
    """
    if sums.half is None:
        raise InvalidInteractions("these sums were made without telling the halves apart")
    K, rng = components.shape[1], np.random.default_rng(seed)
    halves = sums.half, sums - sums.half
    try:
        axes = [whiten(half, K, dtype=np.dtype(np.float64)).inverse for half in halves]
    except InvalidInteractions:
        return 1.0
    found = []
    with one_blas_thread():
        for _ in range(_CHANCE_DRAWS):
            one, two = (_nearest(A @ _rotation(A.shape[1], rng), components) for A in axes)
            found.append((one * two).sum(axis=0))
    return float(np.quantile(found, _CLEAR))


def _nearest(found: Float64, components: Float64) -> Float64:
    """Return of what was found the unit column that is nearest to each component."""
    unit = unit_columns(found)
    return np.asarray(unit[:, (unit.T @ components).argmax(axis=0)])


def _rotation(K: int, rng: np.random.Generator) -> Float64:
    Q, R = np.linalg.qr(rng.standard_normal((K, K)))
    return np.asarray(Q * np.sign(np.diag(R)))
