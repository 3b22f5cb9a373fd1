"""The second moment as a ranking: pairs as they are counted, and pairs explained away.

    G = X^T diag(n^-e) X,     X binary, n the items of a user

is the second moment with a user's weight: e = 1 is that of the balanced estimator, at e = 1/2
the pairs of busy users count for more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import with_narrow_indices
from mom_pipeline.core.linear_algebra.inverse import invert_in_place
from mom_pipeline.core.moments.sums import scaled_rows_and_columns
from mom_pipeline.core.types import Array, Csr, Float64

# The inverse was the better with the pairs of busy users in it.
_EXPLAINED_USER_EXPONENT = 0.5
# Up to so many items the second moment is inverted: 256 MB, and seconds.
MAX_INVERTED_ITEMS = 8192


def as_binary(X: Csr) -> Csr:
    """Return X with every stored count replaced by one, sharing its positions."""
    return sparse.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape, copy=False)


def pair_counts(X: Csr, user_exponent: float) -> Csr:
    """Return G in single precision, (D, D) sparse; counts in X are read as ones."""
    n = np.maximum(np.diff(X.indptr), 1)
    half = scaled_rows_and_columns(
        as_binary(X), n ** (-user_exponent / 2), np.ones(X.shape[1]), np.float32
    )
    return with_narrow_indices((half.T @ half).tocsr())


@dataclass(frozen=True)
class PairScores:
    """How often a candidate goes with the history's items.

        score_y = sum_h x_h (c_h^-history G_hy c_y^-candidate)^sharpness

    powers: G^sharpness entry by entry, (D, D) sparse.  item_users: c, (D,).
    user_exponent: e in G.
    """

    powers: Csr
    item_users: Float64
    user_exponent: float
    sharpness: float

    @classmethod
    def of(cls, X: Csr, user_exponent: float = 1.0, sharpness: float = 1.0) -> Self:
        """Count the pairs of every user."""
        item_users = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
        counted = cls(pair_counts(X, user_exponent), item_users, user_exponent, 1.0)
        return counted.sharpened(sharpness)

    def sharpened(self, sharpness: float) -> Self:
        """Return the same pairs to another power."""
        if sharpness == self.sharpness:
            return self
        G = self.powers
        data = G.data ** np.float32(sharpness / self.sharpness)
        powers = sparse.csr_array((data, G.indices, G.indptr), shape=G.shape, copy=False)
        return type(self)(powers, self.item_users, self.user_exponent, sharpness)

    def history_sums(self, X: Csr, exponents: list[float]) -> Iterator[Array]:
        """Yield sum_h x_h c_h^(-exponent sharpness) G_hy^sharpness of each user: (D, exponents)."""
        scales = self._item_powers(np.array(exponents))
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            history = X.indices[start:stop]
            weights = X.data[start:stop, None] * scales[history]
            yield self.powers[history].T @ weights.astype(np.float32)

    def scores(self, X: Csr, history_exponent: float, candidate_exponent: float) -> Array:
        """Return the scores of a block of users: (users, D)."""
        sums = np.empty(X.shape, dtype=np.float32)
        for row, columns in zip(sums, self.history_sums(X, [history_exponent]), strict=True):
            row[:] = columns[:, 0]
        sums *= self.candidate_scale(candidate_exponent)
        return sums

    def candidate_scale(self, exponent: float) -> Array:
        """Return c_y^(-exponent sharpness), (D,)."""
        return self._item_powers(np.array([exponent]))[:, 0].astype(np.float32)

    def scale_at(self, items: Array, exponent: float) -> Array:
        """Return c_y^(-exponent sharpness) of some items alone."""
        users: Float64 = np.maximum(self.item_users[items], 1.0)
        return (users ** -(exponent * self.sharpness)).astype(np.float32)

    def _item_powers(self, exponents: Float64) -> Float64:
        scales: Float64 = np.maximum(self.item_users, 1.0)[:, None] ** -(exponents * self.sharpness)
        return scales


@dataclass(frozen=True)
class ExplainedPairs:
    """Pairs that remain when the other items of the history have explained their share.

        P = (G + ridge g I)^-1,    B = I - P diag(P)^-1,    score = x B

    g is the mean of G's diagonal. B is the regression of every item on all others with the
    given ridge (Steck 2019, "Embarrassingly shallow autoencoders"), from the second moment alone.
    matrix: B, (D, D), zero on its diagonal.
    """

    matrix: Array

    @classmethod
    def of(cls, X: Csr, ridge: float) -> Self:
        """Invert the second moment of X; D is at most MAX_INVERTED_ITEMS."""
        if not invertible(X):
            raise InvalidSetting(
                f"the explained part inverts a {X.shape[1]} x {X.shape[1]} matrix, at most "
                f"{MAX_INVERTED_ITEMS} items are allowed; set its weight to 0"
            )
        if ridge <= 0:
            raise InvalidSetting(f"ridge of the explained part must be above 0, found {ridge}")
        G = pair_counts(X, _EXPLAINED_USER_EXPONENT).toarray()
        diagonal = np.einsum("ii->i", G)
        # Rows of items that nobody took stay invertible.
        diagonal += max(ridge * float(diagonal.mean()), float(np.finfo(np.float32).eps))
        if not invert_in_place(G):
            raise np.linalg.LinAlgError("the second moment with its ridge is not positive definite")
        B = G / -np.diag(G)
        np.fill_diagonal(B, 0.0)
        return cls(B)

    def scores(self, X: Csr) -> Array:
        """Return the scores of a block of users: (users, D)."""
        return np.asarray(X.astype(np.float32) @ self.matrix)


def invertible(X: Csr) -> bool:
    """Tell whether the second moment of X is small enough to be inverted."""
    return int(X.shape[1]) <= MAX_INVERTED_ITEMS
