"""From eigenvectors back to O = P[item | component] and pi (paper, Algorithm 1, steps 6 to 8)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mom_pipeline.core.algorithm.decomposition import Decomposition
from mom_pipeline.core.algorithm.whitening import Whitening
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums, second_moment_times
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

ProjectionName = Literal["clip", "simplex"]

_SMALLEST_LAMBDA = 1e-6
_ROWS_PER_BLOCK = 16_384
# An item that makes up more than half of an eigenvalue is a direction of its own: a rebuild's.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class Recovery:
    """The parameters of the model, and how far the raw estimates were from distributions."""

    item_probs: Array  # (D, K), columns sum to 1, none negative
    weights: Float64  # (K,), sums to 1
    negative_mass: float  # share of the absolute mass of W† v that was removed
    weight_sum: float  # of lambda^-2 before normalising; 1 when the moments are exact


def item_factors(
    anchor: Anchor, sums: AnchoredSums, whitening: Whitening, vectors: Float64
) -> Array:
    """Return W† v_k up to a factor, (D, K), from M2 seen through the basis.

        mu_k = lambda_k M2 W v_k,     for  M2 = sum_k pi_k mu_k mu_k.T,  v_k = pi_k^(1/2) W.T mu_k

    Where the span is invariant, as for exact eigenvectors, this is U diag(s)^(1/2) v_k = W† v_k.
    Otherwise it is one power step beyond the span: an item that came after the anchor has no
    row in U, but its pairs with the other items tell its component.
    """
    mu = second_moment_times(anchor, sums, whitening.factors @ vectors)
    return _with_own_share(mu, anchor, sums, whitening.eigenvalues, vectors)


def recover(
    mu: Array,
    decomposition: Decomposition,
    item_scale: Float64,
    *,
    projection: ProjectionName = "clip",
    cap_weights: bool = True,
) -> Recovery:
    """Recover the components (paper, Algorithm 1, steps 6-8).

        O_yk = mu_yk / sum_y mu_yk,   mu_k = S^-1 W† v_k,     pi_k = lambda_k^-2

    mu: W† v_k, (D, K) in the scaled space, which is written over.  item_scale: (D,).
    Deviation: the estimates have negative entries, which the paper does not speak of; they are
    removed by `projection`. And pi_k is a probability, so lambda_k >= 1 but for noise: without
    the cap one spurious component with a tiny lambda would take all the weight.
    """
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
    weights, weight_sum = component_weights(decomposition.lambdas, cap_weights=cap_weights)
    return Recovery(O, weights, negative_mass, weight_sum)


def component_weights(lambdas: Float64, *, cap_weights: bool = True) -> tuple[Float64, float]:
    """Return pi_k = lambda_k^-2, normalised, and their sum before that."""
    pi = np.maximum(lambdas, _SMALLEST_LAMBDA) ** -2.0
    weights = np.minimum(pi, 1.0) if cap_weights else pi
    return weights / weights.sum(), float(pi.sum())


def _with_own_share(
    mu: Array, anchor: Anchor, sums: AnchoredSums, eigenvalues: Float64, vectors: Float64
) -> Array:
    """Return mu with the rows of new items divided by 1 - M2_yy / s, per eigenvector.

    An eigenvector u of M2, of eigenvalue s, has at an item y that came after the anchor the entry

        s u_y = sum over known items z of M2_yz u_z  +  M2_yy u_y  +  (other new items)

    The power step is the first part alone. The second is small for most items, but for one that
    is popular on its first day it was a seventh of its probability.
    """
    items = np.flatnonzero((sums.first.item_users > 0) & ~anchor.known)
    if not len(items):
        return mu
    share = _own_pairs(anchor, sums, items)[:, None] / eigenvalues
    to_components = np.sqrt(eigenvalues)[:, None] * vectors
    rows = np.linalg.solve(to_components.T, mu[items].T.astype(np.float64)).T
    mu[items] = (rows / (1 - np.minimum(share, _LARGEST_SHARE))) @ to_components
    return mu


def _own_pairs(anchor: Anchor, sums: AnchoredSums, items: Array) -> Float64:
    """Return M2_yy of some items, in the scaling that a rebuild today would give them."""
    first, estimator = sums.first, anchor.estimator
    own = first.item_squares[items]
    if estimator.distinct:
        own = own - first.pair_diagonal[items]
    scale = estimator.item_scale(first.item_users[items])
    return np.asarray(np.maximum(own, 0) * scale**2 / first.pair_weight, dtype=np.float64)


def _unscale(mu: Array, item_scale: Float64) -> tuple[Float64, Float64]:
    """Divide the rows by S in place; return the columns' sums, of values and of sizes."""

    def block(start: int) -> tuple[Float64, Float64]:
        rows = mu[start : start + _ROWS_PER_BLOCK]
        rows /= item_scale[start : start + _ROWS_PER_BLOCK, None].astype(mu.dtype)
        return rows.sum(axis=0, dtype=np.float64), np.abs(rows).sum(axis=0, dtype=np.float64)

    sums, absolute_sums = zip(*map_blocks(block, range(0, len(mu), _ROWS_PER_BLOCK)), strict=True)
    return np.sum(sums, axis=0), np.sum(absolute_sums, axis=0)


def _clipped(mu: Array, signs: Float64, kept: Float64) -> Array:
    """Set negative entries to 0 and normalise columns, of positive sums `kept` (K,), in place."""
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
