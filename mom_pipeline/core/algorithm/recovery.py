"""From eigenvectors back to O = P[item | class] and pi (paper, Algorithm 1, steps 6 to 8)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mom_pipeline.core.algorithm.decomposition import Decomposition
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.linear_algebra.tall import multiply
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

ProjectionName = Literal["clip", "simplex"]

_SMALLEST_LAMBDA = 1e-6
_ROWS_PER_BLOCK = 16_384


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
    # W† V = U (diag(s)^(1/2) V), without W†, which is as large as U.
    small = np.sqrt(whitening.eigenvalues)[:, None] * decomposition.vectors
    U = whitening.basis
    mu = multiply(U, small, out=np.empty((len(U), small.shape[1]), dtype=U.dtype))
    return recover_from(mu, decomposition.lambdas, item_scale, projection)


def recover_from(
    mu: Array, lambdas: Float64, item_scale: Float64, projection: ProjectionName
) -> Recovery:
    """Recover the classes from W† v_k, (D, K), which is written over."""
    if projection not in ("clip", "simplex"):
        raise InvalidSetting(f"projection must be 'clip' or 'simplex', found {projection!r}")
    sums, absolute_sums = _unscale(mu, item_scale)
    kept = (absolute_sums + np.abs(sums)) / 2  # of each column, its larger sign
    negative_mass = float(1 - kept.sum() / absolute_sums.sum())
    signs = np.where(sums < 0, -1.0, 1.0)
    if projection == "clip":
        O = _clipped(mu, signs, kept)
    else:
        O = _projected_to_simplex(mu * signs.astype(mu.dtype))

    # pi_k is a probability, so lambda_k >= 1 but for noise; without the cap one spurious
    # component with a tiny lambda would take all the weight.
    pi = np.maximum(lambdas, _SMALLEST_LAMBDA) ** -2.0
    capped = np.minimum(pi, 1.0)
    return Recovery(O, capped / capped.sum(), negative_mass, float(pi.sum()))


def _unscale(mu: Array, item_scale: Float64) -> tuple[Float64, Float64]:
    """Divide the rows by S in place; return the columns' sums, of values and of sizes."""

    def block(start: int) -> tuple[Float64, Float64]:
        rows = mu[start : start + _ROWS_PER_BLOCK]
        rows /= item_scale[start : start + _ROWS_PER_BLOCK, None].astype(mu.dtype)
        return rows.sum(axis=0, dtype=np.float64), np.abs(rows).sum(axis=0, dtype=np.float64)

    sums, absolute_sums = zip(*map_blocks(block, range(0, len(mu), _ROWS_PER_BLOCK)), strict=True)
    return np.sum(sums, axis=0), np.sum(absolute_sums, axis=0)


def _clipped(mu: Array, signs: Float64, kept: Float64) -> Array:
    """Set negative entries to zero and normalise the columns, in place; a column of none is
    uniform. kept: (K,) the sum of the positive entries of every column times its sign.
    """
    empty = kept <= 0
    factors = (signs / np.where(empty, 1.0, kept)).astype(mu.dtype)

    def block(start: int) -> None:
        rows = mu[start : start + _ROWS_PER_BLOCK]
        rows *= factors
        np.maximum(rows, 0, out=rows)

    map_blocks(block, range(0, len(mu), _ROWS_PER_BLOCK))
    mu[:, empty] = 1.0 / len(mu)
    return mu


def _projected_to_simplex(mu: Array) -> Array:
    """Move every column, scaled to sum 1, to the nearest distribution in Euclidean distance."""
    sums = mu.sum(axis=0, dtype=np.float64)
    O = mu / np.where(np.abs(sums) < np.finfo(np.float64).tiny, 1.0, sums).astype(mu.dtype)
    for k in range(O.shape[1]):
        descending = np.sort(O[:, k].astype(np.float64))[::-1]
        excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(descending) + 1)
        kept = np.flatnonzero(descending > excess)[-1]
        O[:, k] = np.maximum(O[:, k] - excess[kept], 0)
    return _clipped(O, np.ones(O.shape[1]), O.sum(axis=0, dtype=np.float64))
