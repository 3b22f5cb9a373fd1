"""The whitened third moment (paper, Algorithm 1, step 4)."""

import numpy as np

from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.linear_algebra.compact import unpacked
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

# Rows of the tensor that one thread makes at a time.
_SLAB = 25


def whitened_tensor(
    sums: AnchoredSums, whitening: Whitening, dtype: type[np.floating] = np.float64
) -> Array:
    """M3(W, W, W) = T_B(F, F, F) / sum_u omega'_u, (K, K, K), by products in `dtype`."""
    F = whitening.factors.astype(dtype, copy=False)
    T_B = unpacked(sums.triples.astype(dtype, copy=False), len(F))
    T_B /= dtype(sums.first.triple_weight)

    def slab(F_i: Array) -> Array:
        return np.asarray(F.T @ np.tensordot(F_i.T, T_B, 1) @ F)

    columns = range(_SLAB, F.shape[1], _SLAB)
    return np.concatenate(map_blocks(slab, np.split(F, columns, axis=1)))


def symmetry_error(T: Float64) -> float:
    """Return how far T is from its transposes, relative to its norm."""
    scale = max(float(np.linalg.norm(T)), np.finfo(np.float64).tiny)
    orders = ((1, 0, 2), (0, 2, 1), (2, 1, 0))
    return max(float(np.linalg.norm(T - T.transpose(order))) for order in orders) / scale
