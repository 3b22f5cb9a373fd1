"""What the second and third moments are divided by, and the users of each item, as sums over users.

Every quantity here is a sum of terms of one user each: the sums of two blocks of users
add up to the sums of both, and a user is taken out by subtracting their terms.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.types import Array, Csr, Float64

_ENTRIES_PER_BLOCK = 4_000_000


@dataclass(frozen=True)
class MomentSums:
    """What one pass over a block of users adds to the moments."""

    n_users: int  # users with any event
    sizes: Float64  # (3,) sums of nnz, nnz^2, nnz^3 over users
    pair_weight: float  # sum of omega over users usable for M2
    triple_weight: float  # and for M3
    item_users: Float64  # (D,) users of each item
    pair_diagonal: Float64  # (D,) sum of a_u x_u, the events paired with themselves
    item_squares: Float64  # (D,) sum of a_u x_u^2, the diagonal of X^T A X

    @classmethod
    def from_rows(cls, X: Csr, estimator: Estimator) -> Self:
        """Sum over a block of counts; InvalidInteractions for distinct draws of fractions."""
        X = estimator.weighted(X)
        if estimator.distinct and (fractional := int((X.data % 1 != 0).sum())):
            raise InvalidInteractions(
                f"estimator={estimator.name!r} draws distinct events, so it needs whole counts; "
                f"found {fractional} fractional entries; use estimator='balanced'"
            )
        n = events_per_user(X)
        sizes = np.diff(X.indptr).astype(np.float64)
        a, pair_weight = estimator.term_weights(n, 2)
        _, triple_weight = estimator.term_weights(n, 3)
        return cls(
            n_users=int((sizes > 0).sum()),
            sizes=np.array([(sizes**power).sum() for power in (1, 2, 3)]),
            pair_weight=pair_weight,
            triple_weight=triple_weight,
            item_users=np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64),
            pair_diagonal=column_sums(X, a),
            item_squares=column_sums(X.astype(np.float64).power(2), a),
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*(a - b for a, b in zip(_values(self), _values(other), strict=True)))

    @property
    def mean_sizes(self) -> tuple[float, float, float]:
        """The paper's d1s, d2s, d3s: means of nnz, nnz^2, nnz^3 over users."""
        d1, d2, d3 = (self.sizes / max(self.n_users, 1)).tolist()
        return d1, d2, d3

    @property
    def popularity(self) -> Float64:
        """The share of each item in all user-item pairs, (D,)."""
        return np.asarray(self.item_users / max(self.item_users.sum(), 1.0))

    def with_items(self, n_items: int) -> Self:
        """Return the same sums among more items."""
        longer: dict[str, Any] = {name: padded(getattr(self, name), n_items) for name in ITEM_SUMS}
        return replace(self, **longer)


ITEM_SUMS = ("item_users", "pair_diagonal", "item_squares")


def events_per_user(X: Csr) -> Float64:
    """Return n_u, the row sums, in float64: cubes of large counts overflow integers."""
    return np.asarray(X.sum(axis=1), dtype=np.float64).ravel()


def column_sums(X: Csr, row_weights: Array | None = None) -> Float64:
    """Return sum_u w_u x_u, (D,), a block of entries at a time: rows may lie in a file."""
    data = X.data if row_weights is None else X.data * np.repeat(row_weights, np.diff(X.indptr))
    sums = np.zeros(X.shape[1])
    for own in _blocks(X):
        np.add.at(sums, X.indices[own], data[own].astype(np.float64, copy=False))
    return sums


def users_per_item(X: Csr) -> Array:
    """Return how many users have each item, (D,); a block of entries is read at a time."""
    users = np.zeros(X.shape[1], dtype=np.int64)
    for own in _blocks(X):
        users += np.bincount(X.indices[own], minlength=X.shape[1])
    return users


def _blocks(X: Csr) -> Iterator[slice]:
    for start in range(0, len(X.indices), _ENTRIES_PER_BLOCK):
        yield slice(start, start + _ENTRIES_PER_BLOCK)


def scaled_rows_and_columns(X: Csr, rows: Array, columns: Array, dtype: type[np.floating]) -> Csr:
    """Return diag(rows) X diag(columns), sharing the positions of X."""
    data = np.repeat(rows.astype(dtype), np.diff(X.indptr))
    data *= columns.astype(dtype)[X.indices]
    data *= X.data
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape, copy=False)


def padded(A: Array, n: int) -> Array:
    """Return A with zero rows at its end, up to n."""
    if len(A) == n:
        return A
    return np.pad(A, [(0, n - len(A)), *[(0, 0)] * (A.ndim - 1)])


def _values(sums: MomentSums) -> list[Any]:
    return [getattr(sums, field.name) for field in fields(sums)]
