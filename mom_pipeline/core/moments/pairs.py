"""The second moment (paper, Algorithm 1, step 1), known by its products with a few columns."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.linear_algebra.tall import multiply
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums, events_per_user, scaled_rows_and_columns
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Columns of Q handled by one thread at a time: wide enough that a gathered row fills whole
# cache lines, narrow enough that the N x columns product stays small.
_COLUMNS_PER_SLAB = 64


@dataclass(frozen=True)
class PairMoments:
    """The second moment in the scaled item space, as an operator.

        M2 = R^T R - diag(diagonal),     R = A^(1/2) X S / sqrt(sum_u omega_u)

    A product with a few columns is quicker from the rows, for any number of items and pairs
    (`bench switches`).

    normalised: R, (N, D) sparse.  diagonal: (D,), zero unless the draws are distinct.
    item_scale: (D,) the diagonal of S.  known: M2 itself, (D, D), where there are no rows.
    """

    normalised: Csr
    diagonal: Array
    item_scale: Float64
    known: Array | None = None

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
        return cls(R, diagonal, s)

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

    @cached_property
    def explicit(self) -> Array:
        """M2 as a matrix, (D, D)."""
        if self.known is not None:
            return self.known
        return np.asarray((self.normalised.T @ self.normalised).toarray() - np.diag(self.diagonal))

    def apply(self, Q: Array, /) -> Array:
        """Return M2 @ Q, one pass over the data. Q: (D, columns)."""
        if self.known is not None:
            return multiply(self.known, Q, out=np.empty_like(Q))
        G = gram_product(self.normalised, Q)
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G


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
