"""The second moment (paper, Algorithm 1, step 1), known by its products with a few columns.

M2 = R^T R - diag(diagonal),     R = A^(1/2) X S / sqrt(sum_u omega_u)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

import numpy as np

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums, events_per_user, scaled_rows_and_columns
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

if TYPE_CHECKING:
    from mom_pipeline.core.moments.users import UserRows, Users

# Columns of Q handled by one thread at a time: wide enough that a gathered row fills whole
# cache lines, narrow enough that the N x columns product stays small.
_COLUMNS_PER_SLAB = 64


@dataclass(frozen=True)
class SecondMoment:
    """M2 in the item space scaled by S, as an operator.

    gram: gives R^T R Q of a (D, columns) Q.  written_out: gives R^T R, (D, D).
    diagonal: (D,), events paired with themselves; zero unless the draws are distinct.
    item_scale: (D,) the diagonal of S.
    """

    gram: Callable[[Array], Array]
    written_out: Callable[[], Array]
    diagonal: Array
    item_scale: Float64

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
        """Keep the scaled rows, since every product needs them; see `from_users`."""
        s = estimator.item_scale(sums.item_users) if item_scale is None else item_scale
        R = normalised_rows(X, sums.pair_weight, estimator, s, dtype)
        diagonal = repeated_pairs(sums, estimator, s).astype(dtype)
        return cls(partial(gram_product, R), lambda: (R.T @ R).toarray(), diagonal, s)

    @classmethod
    def from_users(
        cls,
        users: "Users",
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating],
        item_scale: Float64 | None = None,
    ) -> Self:
        """Visit the users anew for every product.

        item_scale: replaces the scaling computed from the sums.
        """
        s = estimator.item_scale(sums.item_users) if item_scale is None else item_scale
        own = (sums.pair_weight, estimator, s)
        return cls(
            lambda Q: users.add_up(PairProductPass(Q, *own)),
            lambda: users.add_up(WrittenOutPass(*own, dtype)),
            repeated_pairs(sums, estimator, s).astype(dtype),
            s,
        )

    @property
    def n_items(self) -> int:
        return len(self.diagonal)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.diagonal.dtype

    @cached_property
    def explicit(self) -> Array:
        """M2 as a matrix, (D, D)."""
        return self.written_out() - np.diag(self.diagonal)

    def apply(self, Q: Array, /) -> Array:
        """Return M2 @ Q, one pass over the data. Q: (D, columns)."""
        G = self.gram(Q)
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G


@dataclass(frozen=True)
class PairProductPass:
    """What some users add to R^T R Q.  Q: (D, columns)."""

    Q: Array
    pair_weight: float
    estimator: Estimator
    item_scale: Float64

    def __call__(self, rows: "UserRows") -> Array:
        R = normalised_rows(
            rows.X, self.pair_weight, self.estimator, self.item_scale, self.Q.dtype.type
        )
        return gram_product(R, self.Q)


@dataclass(frozen=True)
class WrittenOutPass:
    """What some users add to R^T R, (D, D)."""

    pair_weight: float
    estimator: Estimator
    item_scale: Float64
    dtype: type[np.floating]

    def __call__(self, rows: "UserRows") -> Array:
        R = normalised_rows(rows.X, self.pair_weight, self.estimator, self.item_scale, self.dtype)
        return np.asarray((R.T @ R).toarray())


def normalised_rows(
    X: Csr,
    pair_weight: float,
    estimator: Estimator,
    item_scale: Float64,
    dtype: type[np.floating],
) -> Csr:
    """Return R, (N, D). pair_weight: sum of omega over all users, also those not in X."""
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
