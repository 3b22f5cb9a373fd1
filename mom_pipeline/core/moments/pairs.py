"""The second moment (paper, Algorithm 1, step 1), known by its products with a few columns."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.dense import fits_dense
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.linear_algebra.tall import multiply
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums, events_per_user, scaled_rows_and_columns
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Columns of Q handled by one thread at a time: wide enough that a gathered row fills whole
# cache lines, narrow enough that the N x columns product stays small.
_COLUMNS_PER_SLAB = 64
_USERS_PER_BLOCK = 16_384
# Dense products run about this many times as fast per multiply-add as sparse ones, so a
# second moment that is this much fuller than X is still cheaper when written out, if it fits.
_DENSE_ADVANTAGE = 100


@dataclass(frozen=True)
class PairMoments:
    """The second moment in the scaled item space, as an operator.

        M2 = R^T R - diag(diagonal),     R = A^(1/2) X S / sqrt(sum_u omega_u)

    normalised: R, (N, D) sparse.  diagonal: (D,), zero unless the draws are distinct.
    item_scale: (D,) the diagonal of S.  explicit: M2 itself, (D, D), where that is cheaper.
    """

    normalised: Csr
    diagonal: Array
    item_scale: Float64
    explicit: Array | None = None

    @classmethod
    def from_rows(
        cls,
        X: Csr,
        sums: MomentSums,
        estimator: Estimator,
        *,
        item_scale: Float64 | None = None,
        dtype: type[np.floating] = np.float64,
    ) -> Self:
        """Prepare the operator; `item_scale` replaces the scaling computed from the sums."""
        s = estimator.item_scale(sums.item_users) if item_scale is None else item_scale
        R = normalised_rows(X, sums.pair_weight, estimator, s, dtype)
        diagonal = repeated_pairs(sums, estimator, s).astype(dtype)
        M2 = cls(R, diagonal, s)
        if better_written_out(X.shape[1], X.nnz, np.dtype(dtype)):
            return replace(M2, explicit=M2.written_out())
        return M2

    @classmethod
    def exact(cls, M2: Array) -> Self:
        """Wrap a second moment that is known in full, (D, D)."""
        D = M2.shape[0]
        empty = sparse.csr_array((1, D), dtype=M2.dtype)
        return cls(empty, np.zeros(D, dtype=M2.dtype), np.ones(D), M2)

    @property
    def n_items(self) -> int:
        return int(self.diagonal.shape[0])

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.normalised.dtype

    def written_out(self) -> Array:
        """Return M2 as a matrix, (D, D)."""
        return np.asarray((self.normalised.T @ self.normalised).toarray() - np.diag(self.diagonal))

    def apply(self, Q: Array, /) -> Array:
        """Return M2 @ Q, one pass over the data. Q: (D, columns)."""
        if self.explicit is not None:
            return multiply(self.explicit, Q, out=np.empty_like(Q))
        G = gram_product(self.normalised, Q)
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G


def better_written_out(n_items: int, n_pairs: float, dtype: np.dtype[np.floating]) -> bool:
    """Tell whether a second moment of so many pairs of users and items is cheaper as a matrix."""
    entries = n_items**2
    return fits_dense(entries * dtype.itemsize) and entries <= _DENSE_ADVANTAGE * n_pairs


def normalised_rows(
    X: Csr,
    pair_weight: float,
    estimator: Estimator,
    item_scale: Float64,
    dtype: type[np.floating],
) -> Csr:
    """Return R = A^(1/2) X S / sqrt(pair_weight), (N, D).

    X: counts.  pair_weight: sum_u omega_u over all users, also those who are not in X.
    """
    if pair_weight <= 0:
        raise TooLittleData(
            "no user has the 2 events that a pair needs; lower the filters or add days"
        )
    X = estimator.weighted(X)
    a, _ = estimator.term_weights(events_per_user(X), 2)
    return scaled_rows_and_columns(X, np.sqrt(a / pair_weight), item_scale, dtype)


def repeated_pairs(sums: MomentSums, estimator: Estimator, item_scale: Float64) -> Float64:
    """Return what events paired with themselves add to the diagonal of R^T R, (D,).

    Zero unless the draws are distinct: then M2 is to be without it.
    """
    if not estimator.distinct:
        return np.zeros_like(item_scale)
    return np.asarray(item_scale**2 * sums.pair_diagonal / sums.pair_weight)


def gram_product(R: Csr, Q: Array) -> Array:
    """Return R^T (R Q), threads over slabs of columns, so that the sum's order never varies.

    R: (N, D) sparse.  Q: (D, columns).
    """
    G = np.empty_like(Q)
    R_transposed = R.T
    n_slabs = max(-(-Q.shape[1] // _COLUMNS_PER_SLAB), min(available_cores(), Q.shape[1]))
    edges = np.linspace(0, Q.shape[1], n_slabs + 1).astype(int)

    def slab(i: int) -> None:
        columns = slice(edges[i], edges[i + 1])
        G[:, columns] = R_transposed @ (R @ np.ascontiguousarray(Q[:, columns]))

    map_blocks(slab, range(n_slabs))
    return G
