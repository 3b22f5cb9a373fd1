"""The passes over the users that a fit makes, each a sum over users.

A pass is an object and not a function within a function, so that it can be sent to where the
users are.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from mom_pipeline.core.linear_algebra.eigenpairs import DIRECT_ITEMS
from mom_pipeline.core.moments.pairs import gram_product, normalised_rows, repeated_pairs
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.moments.triples import triple_sums
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.types import Array, Float64


@dataclass(frozen=True)
class MomentsPass:
    """The first moment, and what the others are divided by."""

    estimator: Estimator

    def __call__(self, rows: UserRows) -> MomentSums:
        return MomentSums.of(rows.X, self.estimator)


@dataclass(frozen=True)
class PairProductPass:
    """What some users add to the product R^T R Q.  Q: (D, columns)."""

    Q: Array
    pair_weight: float
    estimator: Estimator
    item_scale: Float64

    def __call__(self, rows: UserRows) -> Array:
        R = normalised_rows(
            rows.X, self.pair_weight, self.estimator, self.item_scale, self.Q.dtype.type
        )
        return gram_product(R, self.Q)


@dataclass(frozen=True)
class TriplePass:
    """The sums of the third moment seen through a basis, (D, K)."""

    basis: Array
    estimator: Estimator

    def __call__(self, rows: UserRows) -> Float64:
        return triple_sums(rows.X, self.basis, self.estimator)


@dataclass(frozen=True)
class SummedSecondMoment:
    """M2 of users who are visited anew for every product with it.

    diagonal: (D,), the pairs of an event with itself; zero unless the draws are distinct.
    """

    users: Users
    pair_weight: float
    estimator: Estimator
    item_scale: Float64
    diagonal: Array

    @classmethod
    def of(
        cls, users: Users, sums: MomentSums, estimator: Estimator, dtype: type[np.floating]
    ) -> Self:
        """Prepare the operator; no user is visited yet."""
        s = estimator.item_scale(sums.item_users)
        diagonal = repeated_pairs(sums, estimator, s).astype(dtype)
        return cls(users, sums.pair_weight, estimator, s, diagonal)

    @property
    def n_items(self) -> int:
        """Return D."""
        return len(self.diagonal)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Return the precision of the products."""
        return self.diagonal.dtype

    @cached_property
    def explicit(self) -> Array | None:
        """Return M2 itself where it is small."""
        if self.n_items > DIRECT_ITEMS:
            return None
        return self.apply(np.eye(self.n_items, dtype=self.dtype))

    def apply(self, Q: Array) -> Array:
        """Return M2 @ Q, one pass over the users. Q: (D, columns)."""
        work = PairProductPass(Q, self.pair_weight, self.estimator, self.item_scale)
        G = self.users.add_up(work)
        if self.diagonal.any():
            G -= self.diagonal[:, None] * Q
        return G
