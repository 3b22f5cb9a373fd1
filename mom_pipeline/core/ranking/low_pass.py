"""The low-pass part of the score: what many pairs have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.linear_algebra.half_precision import from_half, rounded, to_half
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.moments.users import MomentsPass, SecondMoment, Users
from mom_pipeline.core.ranking.item_matrix import last_true
from mom_pipeline.core.ranking.parts import LOW_PASS, Histories, row_norms
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr, Float64

# The low-pass part takes as many eigenvectors as are worth asking for and fit in memory, and at
# most a quarter of them all: through all of them a history is seen as it is.
_LOW_PASS_RANK, _LOW_PASS_SIZE = 512, 32_000_000
# Rows of listed items and of histories that are read at a time, 1 MB of each unless one user has
# more: they stay in a core's cache.
_ROWS_PER_BLOCK = 512


@dataclass(frozen=True)
class LowPass:
    """What many pairs have in common, without the noise of the single pair.

        score = x S V diag(f) V^T S^-1,     f = s / (s + ridge)

    V, s are eigenpairs of S G S, S = diag(c^-scaling); s and the ridge are in units of its mean
    diagonal. A ridge of 0 is a plain cut after the last eigenvector.
    basis: V, (D, rank) orthonormal, with the digits of half precision.
    item_scale: the diagonal of S, (D,).  strengths: s, (rank,).
    """

    name: ClassVar[str] = LOW_PASS
    basis: Array
    item_scale: Float64
    strengths: Float64
    ridge: float = field(default=0.0, kw_only=True)

    @classmethod
    def from_pairs(
        cls,
        pairs: "ScaledPairs",
        rng: np.random.Generator,
        *,
        rank: int | None = None,
        tol: float = 1e-5,
        max_passes: int = 10,
    ) -> Self:
        """Find the leading eigenpairs of `scaled_pairs`.

        rank: how many; None for `low_pass_rank`.  tol, max_passes: see `top_eigenpairs`.
        """
        rank = low_pass_rank(pairs.shape) if rank is None else rank
        top = top_eigenpairs(pairs.M2, rank, rng, tol=tol, max_passes=max_passes)
        strengths = np.maximum(top.values[:rank], 0.0) / pairs.mean_diagonal
        return cls(rounded(top.vectors[:, :rank]), pairs.M2.item_scale, strengths)

    def as_arrays(self) -> dict[str, Array]:
        """Return the part as named arrays, to be stored; `from_arrays` reads them back.

        Without the items that came later: they are the same arrays until it is made again.
        """
        n = last_true(np.asarray(self.basis.any(axis=1))) + 1
        rows, exponents = to_half(self.basis[:n])
        return {
            "low_pass_rows": rows,
            "low_pass_exponents": exponents,
            "low_pass_scale": self.item_scale[:n],
            "low_pass_strengths": self.strengths,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the part that `as_arrays` named, without a ridge; see `with_items`.

        Raises ValueError where they do not fit together.
        """
        rows, exponents, scale, strengths = (
            arrays[f"low_pass_{name}"] for name in ("rows", "exponents", "scale", "strengths")
        )
        part = cls(from_half(rows, exponents), scale, strengths)
        if len(part.basis) != len(part.item_scale):
            raise ValueError("the basis and the scale of the low-pass part are of other items")
        return part

    def with_items(self, n_items: int) -> Self:
        """Return the part among more items, which it says nothing about."""
        scale = np.ones(n_items)
        scale[: len(self.item_scale)] = self.item_scale
        return replace(self, basis=padded(self.basis, n_items), item_scale=scale)

    def scores(self, rows: Histories) -> Array:
        return self.products(self.user_factors(rows))

    def at(self, rows: Histories, items: Array) -> Array:
        return self.at_ridges(rows, items, (self.ridge,))[0]

    def at_ridges(self, rows: Histories, items: Array, ridges: Sequence[float]) -> Array:
        """Return the scores of some items with each ridge: (ridges, users, n)."""
        filters = np.stack([self._filter(ridge) for ridge in ridges], axis=1)
        scores = np.empty((len(ridges), *items.shape), dtype=self.basis.dtype)
        for user, (seen, own) in enumerate(zip(self._projected(rows), items, strict=True)):
            scores[:, user] = (self.basis[own] @ (seen[:, None] * filters)).T / self._scale[own]
        return scores

    def by_entry(self, X: Csr, items: Array) -> Array:
        terms = np.empty((X.nnz, items.shape[1]), dtype=self.basis.dtype)
        for users in cut(X.indptr, _ROWS_PER_BLOCK, max(_ROWS_PER_BLOCK // items.shape[1], 1)):
            bounds = X.indptr[users.start : users.stop + 1]
            history, first = X.indices[bounds[0] : bounds[-1]], bounds[0]
            filtered = self.basis[history] * self._scale[history, None] * self._filter(self.ridge)
            for spread, (start, stop) in zip(
                self._spread(items[users]), pairwise(bounds), strict=True
            ):
                terms[start:stop] = (spread @ filtered[start - first : stop - first].T).T
        return terms

    def user_factors(self, rows: Histories) -> Array:
        """Return v = x S V diag(f), (users, rank); an item's score is v . V_y / S_y."""
        return np.asarray(self._projected(rows) * self._filter(self.ridge))

    def products(self, a: Array, items: Array | None = None) -> Array:
        if items is None:
            products = a @ self.basis.T
            products /= self._scale
            return np.asarray(products)
        return np.asarray((a @ self.basis.take(items, axis=0).T) / self._scale[items])

    def norms(self) -> Float64:
        return row_norms(self.basis) / self.item_scale

    def among(self, items: Array) -> Self:
        basis = self.basis.take(items, axis=0)
        return replace(self, basis=basis, item_scale=self.item_scale[items])

    @property
    def rank(self) -> int:
        return len(self.strengths)

    def _spread(self, items: Array) -> Array:
        """Return V_y / S_y of some items, (..., rank)."""
        return np.asarray(self.basis[items] / self._scale[items][..., None])

    @cached_property
    def _scale(self) -> Array:
        return self.item_scale.astype(self.basis.dtype)

    def _projected(self, rows: Histories) -> Array:
        """Return x S V, (users, rank)."""
        X = rows.once
        weights = (self._scale[X.indices] * X.data).astype(self.basis.dtype)
        if X.shape[0] == 1:
            return np.asarray(weights @ self.basis[X.indices])[None]
        S_X = sparse.csr_array((weights, X.indices, X.indptr), X.shape, copy=False)
        return np.asarray(S_X @ self.basis)

    def _filter(self, ridge: float) -> Array:
        if ridge == 0:
            return np.ones(len(self.strengths), dtype=self.basis.dtype)
        with np.errstate(divide="ignore"):  # a direction without strength does not pass
            return (1 / (1 + ridge / self.strengths)).astype(self.basis.dtype)


@dataclass(frozen=True)
class ScaledPairs:
    """S G S as an operator, with the mean of its diagonal. shape: of the users' rows."""

    M2: SecondMoment
    mean_diagonal: float
    shape: tuple[int, int]


def scaled_pairs(
    users: Users, user_exponent: float, scaling: float, dtype: type[np.floating] = np.float32
) -> ScaledPairs:
    """Return S G S, S = diag(c^-scaling), of users whose counts are read as ones.

    scaling: 0 or more. The larger, the more the rare items of a history decide.
    """
    if not 0 <= scaling < np.inf:
        raise InvalidSetting(f"scaling of the low-pass part must be zero or more, found {scaling}")
    once = users.once()
    # At e = 1 and a scaling of 1/2 this is the balanced estimator.
    estimator = Estimator.from_name("balanced", user_weight=2 - user_exponent, item_scaling=scaling)
    sums = once.add_up(MomentsPass(estimator))
    M2 = once.second_moment(sums, estimator, dtype)
    trace = float((M2.item_scale**2 * sums.item_squares).sum() / sums.pair_weight)
    return ScaledPairs(M2, trace / users.shape[1], users.shape)


def low_pass_rank(shape: tuple[int, int]) -> int:
    """Return how many eigenvectors the low-pass part of N users and D items has."""
    N, D = shape
    return max(1, min(_LOW_PASS_RANK, min(N, D) // 4, _LOW_PASS_SIZE // D))
