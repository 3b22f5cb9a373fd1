"""Whitening of M2, and M3 whitened (paper, Algorithm 1, steps 2 to 4), inside an anchor's span."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import InvalidInteractions, RankTooLow, TooLittleData
from mom_pipeline.core.linear_algebra.compact import unpacked
from mom_pipeline.core.linear_algebra.tall import cross, multiply
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.days import operator
from mom_pipeline.core.moments.users import Users
from mom_pipeline.core.threads import map_blocks, one_blas_thread
from mom_pipeline.core.types import Array, Float64

# Random directions that a whitening is held against.
_PROBES = 4


@dataclass(frozen=True)
class Whitening:
    """W with W.T @ M2 @ W = I, as W = U F with the anchor's basis U."""

    factors: Float64  # F = E diag(s)^(-1/2), (K', K)
    spectrum: Float64  # all K' eigenvalues of H, largest first
    requested: int  # the K asked for; n_components is what the spectrum supports

    @property
    def n_components(self) -> int:
        return int(self.factors.shape[1])

    @property
    def eigenvalues(self) -> Float64:
        """The K eigenvalues that are whitened."""
        return self.spectrum[: self.n_components]

    @property
    def inverse(self) -> Float64:
        """The pseudo-inverse of F.T, E diag(s)^(1/2), (K', K)."""
        return self.factors * self.eigenvalues

    def matrix(self, anchor: Anchor) -> Array:
        """Return W, (D, K)."""
        return np.asarray(anchor.basis @ self.factors.astype(anchor.basis.dtype))


def whiten(sums: AnchoredSums, n_components: int, *, dtype: np.dtype[np.floating]) -> Whitening:
    """Whitening map of the pair moment (paper, Algorithm 1, steps 2-3).

        H = U.T M2 U = E diag(s) E.T,   W = U E diag(s)^(-1/2),  so that  W.T @ M2 @ W = I

    The largest entry of every column of E is positive, so that equal moments give equal signs.
    K shrinks to the number of eigenvalues that stand clear of the rounding of dtype, in which
    the sums were made. Raises RankTooLow when there is none.
    """
    if sums.first.pair_weight <= 0 or sums.first.triple_weight <= 0:
        raise TooLittleData("no user has the 3 events that a triple needs; add days")
    H = (sums.pairs + sums.pairs.T) / 2 / sums.first.pair_weight
    if not np.isfinite(H).all():
        raise InvalidInteractions("the second moment is not finite; compute this day in full")
    with one_blas_thread():
        values, E = np.linalg.eigh(H)
    values, E = values[::-1], E[:, ::-1]
    E = E * np.where(E[np.argmax(np.abs(E), axis=0), np.arange(len(E))] < 0, -1.0, 1.0)
    K = _supported(values[:n_components], dtype)
    return Whitening(E[:, :K] / np.sqrt(values[:K]), values, n_components)


def whitening_error(
    users: Users, anchor: Anchor, sums: AnchoredSums, whitening: Whitening
) -> float:
    """Return ||(W.T M2 W - I) Z|| / ||Z|| sqrt(K), with M2 from the rows, not from the sums.

    Z: (K, probes) random, so that a narrow pass over the rows will do. Its mean square is that of
    ||W.T M2 W - I||.
    """
    F, U = whitening.factors, anchor.basis
    Z = np.random.default_rng(0).standard_normal((F.shape[1], _PROBES))
    W_Z = multiply(U, F @ Z, out=np.empty((len(U), _PROBES), dtype=U.dtype))
    M2_W_Z = operator(users, anchor, sums.first).apply(W_Z)
    error = F.T @ cross(U, M2_W_Z) - Z
    return float(np.linalg.norm(error) / np.linalg.norm(Z) * np.sqrt(F.shape[1]))


def _supported(values: Float64, dtype: np.dtype[np.floating]) -> int:
    """Return how many eigenvalues a whitening can divide by."""
    rounding = float(np.finfo(dtype).eps) * 10
    supported = int((values > rounding * max(values[0], 0.0)).sum()) if len(values) else 0
    if supported == 0:
        raise RankTooLow(
            "the second moment has no positive eigenvalue, so no component can be found; "
            "add users with several items each"
        )
    return supported


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
