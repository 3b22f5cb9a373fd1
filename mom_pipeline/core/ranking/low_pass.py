"""Low-pass: what many co-occurrences have in common, without the noise of the single one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.linear_algebra.compact import from_half, rounded, to_half
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.second_moment import SecondMoment
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.moments.users import MomentsPass, Users
from mom_pipeline.core.ranking.item_matrix import last_true
from mom_pipeline.core.ranking.parts import LOW_PASS, Histories
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr, Float64

# Eigenvectors, and their entries in all. At most a quarter of all: through all of them a history
# is seen as it is.
_LOW_PASS_RANK, _LOW_PASS_SIZE = 512, 32_000_000
# Rows of the basis that are read at a time: 1 MB stays in a core's cache.
_ROWS_PER_BLOCK = 512


@dataclass(frozen=True)
class LowPass:
    """score = x S V diag(f) V^T S^-1,  f = s / (s + ridge),  V, s eigenpairs of S G S.

    S = diag(c^-scaling); s and the ridge are in units of the mean diagonal of S G S.
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
        """Return named arrays to be stored, the same until it is made again: no later items."""
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
        """Return the part without a ridge; ValueError where the arrays do not fit together."""
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
        scores = self.user_factors(rows) @ self.basis.T
        scores /= self._scale
        return np.asarray(scores)

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
                self.item_factors(items[users]), pairwise(bounds), strict=True
            ):
                terms[start:stop] = (spread @ filtered[start - first : stop - first].T).T
        return terms

    def user_factors(self, rows: Histories) -> Array:
        """Return x S V diag(f), (users, rank)."""
        return np.asarray(self._projected(rows) * self._filter(self.ridge))

    def norms(self) -> Array:
        """Return the length of every item's factors, (D,)."""
        return np.sqrt(np.einsum("yk,yk->y", self.basis, self.basis)) / self._scale

    def item_factors(self, items: Array) -> Array:
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
    M2 = SecondMoment.from_users(once, sums, estimator, dtype)
    trace = float((M2.item_scale**2 * sums.item_squares).sum() / sums.pair_weight)
    return ScaledPairs(M2, trace / users.shape[1], users.shape)


def low_pass_rank(shape: tuple[int, int]) -> int:
    """Return how many eigenvectors the low-pass part of N users and D items has."""
    N, D = shape
    return max(1, min(_LOW_PASS_RANK, min(N, D) // 4, _LOW_PASS_SIZE // D))
