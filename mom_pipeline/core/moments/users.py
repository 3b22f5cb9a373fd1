"""Users as everything that is summed over them sees them: rows to visit, in memory or in parts.

A pass is work on the rows of some users; its results over disjoint sets of users add up. So the
same pass runs over one matrix in memory, or over shards that lie elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from mom_pipeline.core.linear_algebra.eigenpairs import SymmetricOperator
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.types import Array, Csr, Float64

Sum = TypeVar("Sum")


@dataclass(frozen=True)
class UserRows:
    """Some users. positions: (n,) ascending, of the users among all.  X: (n, D) their rows."""

    positions: Array
    X: Csr


Pass = Callable[[UserRows], Sum]


class SecondMoment(SymmetricOperator, Protocol):
    """M2 in the item space scaled by S, whose diagonal is `item_scale`, (D,)."""

    @property
    def item_scale(self) -> Float64: ...


class Users(Protocol):
    """All users of a data set, to be visited in passes."""

    @property
    def shape(self) -> tuple[int, int]: ...
    def add_up(self, work: Pass[Sum], /) -> Sum: ...
    def second_moment(
        self, sums: MomentSums, estimator: Estimator, dtype: type[np.floating], /
    ) -> SecondMoment: ...


@dataclass(frozen=True)
class UsersInMemory:
    """One matrix. Its rows are not cut up: the passes use all cores by themselves."""

    X: Csr

    @property
    def shape(self) -> tuple[int, int]:
        """Return N and D."""
        return self.X.shape

    def add_up(self, work: Pass[Sum]) -> Sum:
        """Return the result of a pass over all users."""
        return work(UserRows(np.arange(self.X.shape[0]), self.X))

    def second_moment(
        self, sums: MomentSums, estimator: Estimator, dtype: type[np.floating]
    ) -> SecondMoment:
        """Return M2 with the scaled rows kept, since every product needs them."""
        return PairMoments.of(self.X, sums, estimator, dtype=dtype)
