"""How users enter the moments (paper, Algorithm 1, steps 1 and 4, and two estimators beyond it)."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import ROWS, RowsName, weighted_rows
from mom_pipeline.core.types import Array, Csr, Float64

EstimatorName = Literal["balanced", "unbiased", "paper"]


def own_rows(name: EstimatorName) -> RowsName:
    """What an estimator makes of counts unless told: distinct draws are of repeated events."""
    return "counts" if name == "unbiased" else "binary"


@dataclass(frozen=True)
class Estimator:
    """How a user's row enters the moments.

        M_m = sum_u omega_u x_u^(⊗m) / draws_m(n_u)  /  sum_u omega_u,     m = 2, 3

    `distinct` leaves out the pairs and triples that use one event twice, with
    draws_m(n) = n (n-1) ... (n-m+1); otherwise draws_m(n) = n^m.
    omega_u = n_u^user_weight; None means n_u^m, the paper's plain sums.
    The moments live in the item space scaled by S = diag(c^-item_scaling), c_y the users of y.
    rows: how x_u comes from the counts; see `weighted_rows`.
    """

    name: str
    distinct: bool
    user_weight: float | None
    item_scaling: float
    rows: RowsName = "counts"

    @classmethod
    def from_name(
        cls,
        name: EstimatorName,
        *,
        user_weight: float | None = None,
        item_scaling: float | None = None,
        rows: RowsName = "counts",
    ) -> Self:
        """Return a named estimator, with its own user weight or item scaling if given."""
        if name not in _ESTIMATORS:
            raise InvalidSetting(
                f"estimator must be one of {sorted(get_args(EstimatorName))}, found {name!r}"
            )
        if rows not in ROWS:
            raise InvalidSetting(f"rows must be one of {', '.join(ROWS)}, found {rows!r}")
        distinct, default_weight, default_scaling = _ESTIMATORS[name]
        return cls(
            name=name,
            distinct=distinct,
            user_weight=default_weight if user_weight is None else user_weight,
            item_scaling=default_scaling if item_scaling is None else item_scaling,
            rows=rows,
        )

    @property
    def is_the_papers(self) -> bool:
        """Tell whether the moments are the plain sums that Theorem 1 is about."""
        return not self.distinct and self.user_weight is None and self.item_scaling == 0

    def weighted(self, X: Csr) -> Csr:
        """Return rows of counts as they enter the moments, (N, D)."""
        return weighted_rows(X, self.rows)

    def term_weights(self, n: Array, order: int) -> tuple[Float64, float]:
        """(N,) a_u = omega_u / draws(n_u) and sum_u omega_u; 0 where no distinct draw exists."""
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
