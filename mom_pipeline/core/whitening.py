"""Whitening of the second moment (paper, Algorithm 1, steps 2 and 3).

The top eigenpairs come from block subspace iteration with Rayleigh-Ritz. Between two
Rayleigh-Ritz steps the block is multiplied by a Chebyshev polynomial of M2 that is small on
the part of the spectrum we do not want, which takes far fewer passes than powers of M2.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from mom_pipeline.core.errors import RankTooLow
from mom_pipeline.core.types import Array, Float64

# Below this many items LAPACK's full eigendecomposition is quicker than any iteration.
_DIRECT_ITEMS = 600
# A filter may raise the top eigenvector over the last wanted one by no more than this in
# single precision; beyond it, rounding would drown the last ones.
_MAX_AMPLIFICATION = 1e4
_MAX_DEGREE = 8
# Single-vector products spent on finding where the spectrum begins.
_LANCZOS_STEPS = 10


class SymmetricOperator(Protocol):
    """A symmetric D x D matrix known by its products."""

    @property
    def n_items(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.floating]: ...
    @property
    def lowest_possible(self) -> float: ...
    @property
    def explicit(self) -> Array | None: ...
    def apply(self, Q: Array, /) -> Array: ...


@dataclass(frozen=True)
class Eigenpairs:
    """Leading eigenpairs, largest first.

    values: (k,).  vectors: (D, k), orthonormal, each with a positive sum.
    passes: products with M2 that it took.
    residual: largest ||M2 v - value v|| / values[0] among the pairs that were asked for.
    """

    values: Float64
    vectors: Array
    passes: int
    residual: float


@dataclass(frozen=True)
class Whitening:
    """W with W.T @ M2 @ W = I, kept as eigenpairs of M2.

    basis: (D, K) orthonormal U.  eigenvalues: (K,).  K is at most the `requested` number.
    """

    basis: Array
    eigenvalues: Float64
    requested: int
    passes: int
    residual: float

    @property
    def n_components(self) -> int:
        """Return K."""
        return len(self.eigenvalues)

    @property
    def matrix(self) -> Array:
        """Return W = U diag(s)^(-1/2), (D, K)."""
        return self.basis / np.sqrt(self.eigenvalues).astype(self.basis.dtype)

    @property
    def inverse(self) -> Array:
        """Return the pseudo-inverse of W.T, W (W.T W)^-1 = U diag(s)^(1/2), (D, K)."""
        return self.basis * np.sqrt(self.eigenvalues).astype(self.basis.dtype)


def whiten(
    M2: SymmetricOperator,
    n_components: int,
    rng: np.random.Generator,
    *,
    warm_start: Array | None = None,
    tol: float = 1e-5,
    max_passes: int = 12,
) -> Whitening:
    """Whitening map of the pair moment (paper, Algorithm 1, steps 2-3).

        W = U diag(s)^(-1/2),  so that  W.T @ M2 @ W = I

    K shrinks to the number of eigenvalues that stand clear of rounding error.
    Raises RankTooLow when there is none.
    """
    pairs = top_eigenpairs(
        M2, n_components, rng, warm_start=warm_start, tol=tol, max_passes=max_passes
    )
    return whitening_from(pairs, n_components)


def whitening_from(pairs: Eigenpairs, n_components: int) -> Whitening:
    """Keep the leading pairs whose eigenvalues a whitening can divide by."""
    wanted = pairs.values[:n_components]
    rounding = np.finfo(pairs.vectors.dtype).eps * 10
    supported = int((wanted > rounding * max(wanted[0], 0.0)).sum()) if len(wanted) else 0
    if supported == 0:
        raise RankTooLow(
            "the second moment has no positive eigenvalue, so no component can be found; "
            "add users with several items each"
        )
    return Whitening(
        basis=pairs.vectors[:, :supported],
        eigenvalues=wanted[:supported],
        requested=n_components,
        passes=pairs.passes,
        residual=pairs.residual,
    )


def top_eigenpairs(
    M2: SymmetricOperator,
    k: int,
    rng: np.random.Generator,
    *,
    warm_start: Array | None = None,
    tol: float = 1e-5,
    max_passes: int = 12,
) -> Eigenpairs:
    """Return the k (and the guard) leading eigenpairs of M2.

    Stops when the sum of the k leading Ritz values grows by less than `tol` of itself for
    each pass, or after `max_passes` passes. warm_start: (D, any) columns to begin with.
    """
    D = M2.n_items
    if M2.explicit is not None and D <= _DIRECT_ITEMS:
        values, vectors = np.linalg.eigh(M2.explicit)
        top = np.argsort(-values, kind="stable")[: block_width(k, D)]
        return Eigenpairs(values[top], _with_positive_sums(vectors[:, top]), 1, 0.0)

    lowest = _lowest_eigenvalue(M2, rng)
    Q = orthonormal(_starting_block(M2, block_width(k, D), rng, warm_start))
    G = M2.apply(Q)
    values, Q, G = _rayleigh_ritz(Q, G)
    passes, captured = 1, 0.0
    while passes < max_passes:
        gain, captured = values[:k].sum() - captured, values[:k].sum()
        degree = min(_filter_degree(values, k, lowest), max_passes - passes)
        if passes > 1 and gain <= tol * captured * degree:
            break
        Q = orthonormal(_chebyshev_filter(M2, Q, G, _unwanted_interval(values, lowest), degree))
        G = M2.apply(Q)
        values, Q, G = _rayleigh_ritz(Q, G)
        passes += degree
    residual = np.linalg.norm(G[:, :k] - Q[:, :k] * values[:k].astype(Q.dtype), axis=0)
    scale = max(abs(float(values[0])), np.finfo(np.float64).tiny)
    return Eigenpairs(values, _with_positive_sums(Q), passes, float(residual.max()) / scale)


def block_width(k: int, D: int) -> int:
    """Return K' = 1.25 K, at least K + 8: the guard columns that speed up the last ones."""
    return min(D, max(k + 8, -(-5 * k // 4)))


def orthonormal(Q: Array) -> Array:
    """Orthonormal basis of the columns of Q, by Cholesky-QR done twice.

    Columns that depend on the others are dropped, so the result may be narrower.
    Q: (D, columns).
    """
    norms = np.linalg.norm(Q, axis=0)
    Q = Q[:, norms > 0] / norms[norms > 0]
    for _ in range(2):
        gram = (Q.T @ Q).astype(np.float64)
        try:
            R = linalg.cholesky(gram)
            if np.diag(R).min() < np.sqrt(np.finfo(Q.dtype).eps) * 4:
                raise linalg.LinAlgError("nearly dependent columns")
            to_orthonormal = linalg.solve_triangular(R, np.eye(len(R)))
        except linalg.LinAlgError:
            w, V = np.linalg.eigh(gram)
            independent = w > len(w) * np.finfo(Q.dtype).eps * w[-1] * 10
            to_orthonormal = V[:, independent] / np.sqrt(w[independent])
        Q = Q @ to_orthonormal.astype(Q.dtype)
    return Q


def _starting_block(
    M2: SymmetricOperator, width: int, rng: np.random.Generator, warm_start: Array | None
) -> Array:
    given = np.empty((M2.n_items, 0)) if warm_start is None else warm_start[:, :width]
    fresh = rng.standard_normal((M2.n_items, width - given.shape[1]), dtype=np.float32)
    return np.hstack([given, fresh]).astype(M2.dtype)


def _lowest_eigenvalue(M2: SymmetricOperator, rng: np.random.Generator) -> float:
    """Bound the spectrum from below by a few Lanczos steps, where it may reach below zero.

    The distinct-draws estimator subtracts a diagonal, whose largest entry is a safe bound but
    some hundred times too low: the filter would waste most of its strength below the spectrum.
    """
    if M2.lowest_possible >= 0.0:
        return 0.0
    v, v_before = orthonormal(rng.standard_normal((M2.n_items, 1)).astype(M2.dtype)), 0.0
    alphas: list[float] = []
    betas: list[float] = [0.0]
    for _ in range(min(_LANCZOS_STEPS, M2.n_items)):
        w = M2.apply(v) - M2.dtype.type(betas[-1]) * v_before
        alphas.append(float((w * v).sum()))
        w -= M2.dtype.type(alphas[-1]) * v
        betas.append(float(np.linalg.norm(w)))
        if betas[-1] <= np.finfo(M2.dtype).eps * abs(alphas[0]):
            break
        v_before, v = v, w / M2.dtype.type(betas[-1])
    smallest = linalg.eigvalsh_tridiagonal(np.array(alphas), np.array(betas[1 : len(alphas)]))[0]
    return max(float(smallest) - betas[-1], M2.lowest_possible)


def _rayleigh_ritz(Q: Array, G: Array) -> tuple[Float64, Array, Array]:
    """Rotate Q and G = M2 Q to the eigenvectors of Q.T M2 Q, largest first."""
    H = (Q.T @ G).astype(np.float64)
    values, E = np.linalg.eigh((H + H.T) / 2)
    E = E[:, ::-1].astype(Q.dtype)
    return values[::-1].copy(), Q @ E, G @ E


def _filter_degree(values: Float64, k: int, lowest: float) -> int:
    """Return the largest useful degree whose amplification float32 can bear."""
    centre, half_width = _unwanted_interval(values, lowest)
    first, last = ((values[i] - centre) / half_width for i in (0, min(k, len(values)) - 1))
    for degree in range(_MAX_DEGREE, 1, -1):
        spread = np.cosh(degree * np.arccosh(max(first, 1.0)))
        spread /= np.cosh(degree * np.arccosh(max(last, 1.0)))
        if spread <= _MAX_AMPLIFICATION:
            return degree
    return 1


def _unwanted_interval(values: Float64, lowest: float) -> tuple[float, float]:
    """Return centre and half-width of [lowest, smallest Ritz value of the block]."""
    highest = max(float(values[-1]), lowest + 1e-12 * abs(float(values[0])))
    return (highest + lowest) / 2, (highest - lowest) / 2


def _chebyshev_filter(
    M2: SymmetricOperator, Q: Array, G: Array, unwanted: tuple[float, float], degree: int
) -> Array:
    """Return T_degree((M2 - c I) / h) Q, with G = M2 Q as its first product.

        T_0 = Q,   T_1 = (M2 - c) Q / h,   T_{j+1} = 2 (M2 - c) T_j / h - T_{j-1}

    unwanted: c and h, centre and half-width of the part of the spectrum to keep small.
    """
    c, h = (M2.dtype.type(value) for value in unwanted)
    previous, current = Q, (G - c * Q) / h
    for _ in range(degree - 1):
        following = M2.apply(current)
        following -= c * current
        following *= 2 / h
        following -= previous
        previous, current = current, following
    return current


def _with_positive_sums(Q: Array) -> Array:
    """Fix the sign of every column, so that the same data give the same vectors."""
    return Q * np.where(Q.sum(axis=0, dtype=np.float64) < 0, -1.0, 1.0).astype(Q.dtype)
