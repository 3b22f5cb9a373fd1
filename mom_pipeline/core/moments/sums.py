"""How users enter the moments, and the first of them, as sums over users (paper, Algorithm 1).

Every quantity here is a sum of terms of one user each: the sums of two blocks of users
add up to the sums of both, and a user is taken out by subtracting their terms.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.types import Array, Csr, Float64

EstimatorName = Literal["paper", "unbiased", "balanced"]


@dataclass(frozen=True)
class Estimator:
    """How a user's row enters the moments.

        M_m = sum_u omega_u x_u^(⊗m) / draws_m(n_u)  /  sum_u omega_u,     m = 2, 3

    `distinct` leaves out the pairs and triples that use one event twice, with
    draws_m(n) = n (n-1) ... (n-m+1); otherwise draws_m(n) = n^m.
    omega_u = n_u^user_weight; None means n_u^m, the paper's plain sums.
    The moments live in the item space scaled by S = diag(c^-item_scaling), c_y the users of y.
    """

    name: str
    distinct: bool
    user_weight: float | None
    item_scaling: float

    @classmethod
    def of(
        cls,
        name: EstimatorName,
        *,
        user_weight: float | None = None,
        item_scaling: float | None = None,
    ) -> Self:
        """Return a named estimator, with its own user weight or item scaling if given."""
        if name not in _ESTIMATORS:
            raise InvalidSetting(f"estimator must be one of {sorted(_ESTIMATORS)}, found {name!r}")
        distinct, default_weight, default_scaling = _ESTIMATORS[name]
        return cls(
            name=name,
            distinct=distinct,
            user_weight=default_weight if user_weight is None else user_weight,
            item_scaling=default_scaling if item_scaling is None else item_scaling,
        )

    def term_weights(self, n: Array, order: int) -> tuple[Float64, float]:
        """Return a_u = omega_u / draws(n_u) and sum_u omega_u for the moment of this order.

        n: (N,) events of each user. Users with too few events for a distinct draw weigh zero.
        """
        n = np.asarray(n, dtype=np.float64)
        draws = np.ones_like(n)
        for j in range(order):
            draws *= np.maximum(n - j, 0.0) if self.distinct else n
        power = order if self.user_weight is None else self.user_weight
        usable = draws > 0
        omega = np.where(usable, np.power(n, power, where=usable, out=np.zeros_like(n)), 0.0)
        return omega / np.where(usable, draws, 1.0), float(omega.sum())

    def item_scale(self, item_users: Array) -> Float64:
        """Return the diagonal of S; items without users get 1."""
        return np.maximum(np.asarray(item_users, dtype=np.float64), 1.0) ** -self.item_scaling


# name: (distinct draws only, power of the user weight, power of the item scaling)
_ESTIMATORS: dict[str, tuple[bool, float | None, float]] = {
    "paper": (False, None, 0.0),
    "unbiased": (True, 0.0, 0.0),
    "balanced": (False, 1.0, 0.5),
}


@dataclass(frozen=True)
class MomentSums:
    """What one pass over a block of users adds to the moments. D is the number of items.

    n_users: users with any event.  size_sums: sum of nnz, nnz^2, nnz^3 over users.
    pair_weight, triple_weight: sum of omega over users usable for M2, M3.
    item_events, item_users: (D,) first moment, and users of each item.
    pair_diagonal: (D,) sum of a_u x_u, the events paired with themselves.
    """

    n_users: int
    size_sums: tuple[float, float, float]
    pair_weight: float
    triple_weight: float
    item_events: Float64
    item_users: Float64
    pair_diagonal: Float64

    @classmethod
    def of(cls, X: Csr, estimator: Estimator) -> Self:
        """Sum over the users of one block."""
        n = events_per_user(X)
        sizes = np.diff(X.indptr).astype(np.float64)
        a, pair_weight = estimator.term_weights(n, 2)
        _, triple_weight = estimator.term_weights(n, 3)
        return cls(
            n_users=int((sizes > 0).sum()),
            size_sums=(float(sizes.sum()), float((sizes**2).sum()), float((sizes**3).sum())),
            pair_weight=pair_weight,
            triple_weight=triple_weight,
            item_events=column_sums(X),
            item_users=np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64),
            pair_diagonal=column_sums(X, a),
        )

    def __add__(self, other: Self) -> Self:
        return self._combine(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._combine(other, -1)

    @property
    def mean_sizes(self) -> tuple[float, float, float]:
        """Return the paper's d1s, d2s, d3s: means of nnz, nnz^2, nnz^3 over users."""
        d1, d2, d3 = (total / max(self.n_users, 1) for total in self.size_sums)
        return d1, d2, d3

    def _combine(self, other: Self, sign: int) -> Self:
        d1, d2, d3 = (a + sign * b for a, b in zip(self.size_sums, other.size_sums, strict=True))
        return replace(
            self,
            n_users=self.n_users + sign * other.n_users,
            size_sums=(d1, d2, d3),
            pair_weight=self.pair_weight + sign * other.pair_weight,
            triple_weight=self.triple_weight + sign * other.triple_weight,
            item_events=self.item_events + sign * other.item_events,
            item_users=self.item_users + sign * other.item_users,
            pair_diagonal=self.pair_diagonal + sign * other.pair_diagonal,
        )


def events_per_user(X: Csr) -> Float64:
    """Return n_u, the row sums, in float64: cubes of large counts overflow integers."""
    return np.asarray(X.sum(axis=1), dtype=np.float64).ravel()


def column_sums(X: Csr, row_weights: Array | None = None) -> Float64:
    """Return sum_u w_u x_u, (D,), in float64; w_u = 1 unless given."""
    data = X.data if row_weights is None else X.data * np.repeat(row_weights, np.diff(X.indptr))
    sums: Float64 = np.bincount(X.indices, weights=data, minlength=X.shape[1]).astype(np.float64)
    return sums


def scaled_rows_and_columns(X: Csr, rows: Array, columns: Array, dtype: type[np.floating]) -> Csr:
    """Return diag(rows) X diag(columns), sharing the positions of X."""
    data = np.repeat(rows.astype(dtype), np.diff(X.indptr))
    data *= columns.astype(dtype)[X.indices]
    data *= X.data
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape, copy=False)
