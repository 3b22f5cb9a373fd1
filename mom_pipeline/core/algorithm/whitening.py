"""Whitening of the second moment (paper, Algorithm 1, steps 2 and 3)."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import RankTooLow
from mom_pipeline.core.linear_algebra.eigenpairs import (
    Eigenpairs,
    SymmetricOperator,
    top_eigenpairs,
)
from mom_pipeline.core.types import Array, Float64


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
    max_passes: int = 10,
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
