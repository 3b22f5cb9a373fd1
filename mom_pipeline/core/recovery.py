"""From eigenvectors back to O = P[item | class] and pi (paper, Algorithm 1, steps 6 to 8)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mom_pipeline.core.decomposition import Decomposition
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.types import Array, Float64
from mom_pipeline.core.whitening import Whitening

ProjectionName = Literal["clip", "simplex"]

_SMALLEST_LAMBDA = 1e-6


@dataclass(frozen=True)
class Recovery:
    """The parameters of the model, and how far the raw estimates were from distributions.

    item_probs: (D, K), columns sum to 1, none negative.  weights: (K,), sums to 1.
    negative_mass: share of the absolute mass of W† v that was negative and removed.
    weight_sum: sum of lambda^-2 before normalising; 1 when the moments are exact.
    """

    item_probs: Array
    weights: Float64
    negative_mass: float
    weight_sum: float


def recover(
    whitening: Whitening,
    decomposition: Decomposition,
    item_scale: Float64,
    *,
    projection: ProjectionName = "clip",
) -> Recovery:
    """Recover the classes (paper, Algorithm 1, steps 6-8).

        mu_k = S^-1 W† v_k,   O_yk = mu_yk / sum_y mu_yk,   pi_k = lambda_k^-2

    item_scale: (D,) the diagonal of S, 1 where the items were not scaled.
    """
    if projection not in ("clip", "simplex"):
        raise InvalidSetting(f"projection must be 'clip' or 'simplex', found {projection!r}")
    mu = whitening.inverse @ decomposition.vectors.astype(whitening.basis.dtype)
    mu /= item_scale[:, None].astype(mu.dtype)
    mu *= np.where(mu.sum(axis=0, dtype=np.float64) < 0, -1.0, 1.0).astype(mu.dtype)
    total = np.abs(mu).sum(axis=0, dtype=np.float64).sum()
    negative_mass = float(-np.minimum(mu, 0).sum(axis=0, dtype=np.float64).sum() / total)
    O = _clipped(mu) if projection == "clip" else _projected_to_simplex(mu)

    # pi_k is a probability, so lambda_k >= 1 but for noise; without the cap one spurious
    # component with a tiny lambda would take all the weight.
    pi = np.maximum(decomposition.lambdas, _SMALLEST_LAMBDA) ** -2.0
    capped = np.minimum(pi, 1.0)
    return Recovery(O, capped / capped.sum(), negative_mass, float(pi.sum()))


def _clipped(mu: Array) -> Array:
    """Set negative entries to zero and normalise the columns; a column of none is uniform."""
    O = np.maximum(mu, 0)
    sums = O.sum(axis=0, dtype=np.float64)
    O[:, sums == 0] = 1.0
    O /= np.where(sums == 0, len(O), sums).astype(O.dtype)
    return O


def _projected_to_simplex(mu: Array) -> Array:
    """Move every column, scaled to sum 1, to the nearest distribution in Euclidean distance."""
    sums = mu.sum(axis=0, dtype=np.float64)
    O = mu / np.where(np.abs(sums) < np.finfo(np.float64).tiny, 1.0, sums).astype(mu.dtype)
    for k in range(O.shape[1]):
        descending = np.sort(O[:, k].astype(np.float64))[::-1]
        excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(descending) + 1)
        kept = np.flatnonzero(descending > excess)[-1]
        O[:, k] = np.maximum(O[:, k] - excess[kept], 0)
    return _clipped(O)
