"""The second moment (paper, Algorithm 1, step 1), known by its products with a few columns.

M2 = R^T R - diag(diagonal),     R = A^(1/2) X S / sqrt(sum_u omega_u)
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Self

import numpy as np

from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums, events_per_user, scaled_rows_and_columns
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.threads import available_cores, map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Columns of Q handled by one thread at a time: wide enough that a gathered row fills whole
# cache lines, narrow enough that the N x columns product stays small.
_COLUMNS_PER_SLAB = 64


@dataclass(frozen=True)
class SecondMoment:
    """M2 in the scaled item space, as an operator: every product is one pass over the users."""

    users: Users  # whose rows are those of R, (N, D)
    diagonal: Array  # (D,) events paired with themselves; 0 unless draws are distinct
    item_scale: Float64  # (D,) the diagonal of S

    @classmethod
    def from_users(
        cls,
        users: Users,
        sums: MomentSums,
        estimator: Estimator,
        dtype: type[np.floating] = np.float64,
        item_scale: Float64 | None = None,
    ) -> Self:
        """Scale the rows of the users. item_scale: replaces the scaling computed from the sums."""
        if sums.pair_weight <= 0:
            raise TooLittleData(
                "no user has the 2 events that a pair needs; lower the filters or add days"
            )
        s = estimator.item_scale(sums.item_users) if item_scale is None else item_scale
        diagonal = np.zeros_like(s)
        if estimator.distinct:
            diagonal = s**2 * sums.pair_diagonal / sums.pair_weight
        scaled = partial(_scaled_rows, estimator, sums.pair_weight, s, dtype)
        return cls(users.with_rows(scaled), diagonal.astype(dtype), s)

    @property
    def n_items(self) -> int:
        return len(self.diagonal)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.diagonal.dtype

    @cached_property
    def explicit(self) -> Array:
        """M2 as a matrix, (D, D)."""
        return self.users.add_up(_gram) - np.diag(self.diagonal)

    def apply(self, Q: Array, /) -> Array:
        """Return M2 @ Q. Q: (D, columns)."""
        G = self.users.add_up(partial(_gram_times, Q))
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G


def _scaled_rows(
    estimator: Estimator,
    pair_weight: float,
    item_scale: Float64,
    dtype: type[np.floating],
    X: Csr,
) -> Csr:
    """Return R of some users, (N, D). pair_weight: sum of omega over all users."""
    X = estimator.weighted(X)
    a, _ = estimator.term_weights(events_per_user(X), 2)
    return scaled_rows_and_columns(X, np.sqrt(a / pair_weight), item_scale, dtype)


def _gram(rows: UserRows) -> Array:
    return np.asarray((rows.X.T @ rows.X).toarray())


def _gram_times(Q: Array, rows: UserRows) -> Array:
    """Return R^T (R Q), R (N, D) sparse, Q (D, columns), in an order that never varies."""
    G, R = np.empty_like(Q), rows.X
    R_transposed = R.T
    n_slabs = max(-(-Q.shape[1] // _COLUMNS_PER_SLAB), min(available_cores(), Q.shape[1]))
    edges = np.linspace(0, Q.shape[1], n_slabs + 1).astype(int)

    def slab(i: int) -> None:
        columns = slice(edges[i], edges[i + 1])
        G[:, columns] = R_transposed @ (R @ np.ascontiguousarray(Q[:, columns]))

    map_blocks(slab, range(n_slabs))
    return G
