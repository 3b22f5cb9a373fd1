"""The whitened third moment (paper, Algorithm 1, step 4)."""

import numpy as np

from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.linear_algebra.symmetric import unpacked
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Float64


def whitened_tensor(
    sums: AnchoredSums, whitening: Whitening, dtype: type[np.floating] = np.float64
) -> Array:
    """Return M3(W, W, W) = T_B(F, F, F) / sum_u omega'_u, (K, K, K).

    dtype: of the products.
    """
    F = whitening.factors.astype(dtype, copy=False)
    with one_blas_thread():
        T_B = unpacked(sums.triples.astype(dtype, copy=False), len(F))
        T = np.einsum("abc,ai,bj,ck->ijk", T_B, F, F, F, optimize=True)
    return np.asarray(T / dtype(sums.first.triple_weight))


def symmetry_error(T: Float64) -> float:
    """Return how far T is from its transposes, relative to its norm."""
    scale = max(float(np.linalg.norm(T)), np.finfo(np.float64).tiny)
    orders = ((1, 0, 2), (0, 2, 1), (2, 1, 0))
    return max(float(np.linalg.norm(T - T.transpose(order))) for order in orders) / scale
