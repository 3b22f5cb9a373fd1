"""Low-pass: what many co-occurrences have in common, without the noise of the single one.

    score = x S V V^T S^-1,    V: leading eigenvectors of S G S,    S = diag(c^-1/4)

A part of rows without days alone. On a hidden fifth of the training parts of Amazon-CDs and
Gowalla it brings 39 and 16 (standard errors 10 and 9) ten-thousandths of nDCG@20; on later days of
three dated logs -8 to -1 (7, 5, 3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.linear_algebra.compact import from_half, rounded, to_half
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.second_moment import SecondMoment
from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.moments.users import MomentsPass, Users
from mom_pipeline.core.ranking.item_matrix import last_true
from mom_pipeline.core.ranking.parts import LOW_PASS, USER_EXPONENT, Histories
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Float64

# Eigenvectors, and items that there are for each: on ML-1M 64 bring 20 and 31 ten-thousandths of
# nDCG@20 (two hidden fifths), 256 bring nothing. On Amazon-CDs 200 bring a fifth of what 512 do: a
# catalogue for which these are too large has no such part.
_RANK, _ITEMS_PER_VECTOR, MAX_ITEMS = 512, 48, 50_000
_SCALING = 0.25
# Rows of the basis that are read at a time: 1 MB stays in a core's cache.
_ROWS_PER_BLOCK = 512


@dataclass(frozen=True)
class LowPass:
    """basis: V, (D, rank) orthonormal, with the digits of half precision.

    item_scale: the diagonal of S, (D,).
    """

    name: ClassVar[str] = LOW_PASS
    basis: Array
    item_scale: Float64

    @classmethod
    def from_users(cls, users: Users, seed: int = 0) -> Self:
        """Find the leading eigenvectors of S G S, of users whose counts are read as ones."""
        once = users.once()
        rank = max(1, min(_RANK, min(users.shape) // _ITEMS_PER_VECTOR))
        # At e = 1 and a scaling of 1/2 this is the balanced estimator.
        estimator = Estimator.from_name(
            "balanced", user_weight=2 - USER_EXPONENT, item_scaling=_SCALING
        )
        sums = once.add_up(MomentsPass(estimator))
        M2 = SecondMoment.from_users(once, sums, estimator, np.float32)
        top = top_eigenpairs(M2, rank, np.random.default_rng(seed), tol=1e-5, max_passes=10)
        return cls(rounded(top.vectors[:, :rank]), M2.item_scale)

    def as_arrays(self) -> dict[str, Array]:
        """Return named arrays to be stored, the same until it is made again: no later items."""
        n = last_true(np.asarray(self.basis.any(axis=1))) + 1
        rows, exponents = to_half(self.basis[:n])
        scale = self.item_scale[:n]
        return {"low_pass_rows": rows, "low_pass_exponents": exponents, "low_pass_scale": scale}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the part; ValueError where the arrays do not fit together."""
        rows, exponents, scale = (
            arrays[f"low_pass_{name}"] for name in ("rows", "exponents", "scale")
        )
        part = cls(from_half(rows, exponents), scale)
        if part.basis.ndim != 2 or len(part.basis) != len(part.item_scale):
            raise ValueError("the basis and the scale of the low-pass part are of other items")
        return part

    def with_items(self, n_items: int) -> Self:
        """Return the part among more items, which it says nothing about."""
        scale = np.ones(n_items)
        scale[: len(self.item_scale)] = self.item_scale
        return replace(self, basis=padded(self.basis, n_items), item_scale=scale)

    def scores(self, rows: Histories) -> Array:
        scores = self._projected(rows) @ self.basis.T
        scores /= self._scale
        return np.asarray(scores)

    def at(self, rows: Histories, items: Array) -> Array:
        scores = np.empty(items.shape, dtype=self.basis.dtype)
        for user, (seen, own) in enumerate(zip(self._projected(rows), items, strict=True)):
            scores[user] = self.basis[own] @ seen / self._scale[own]
        return scores

    def by_entry(self, rows: Histories, items: Array) -> Array:
        X = rows.X
        terms = np.empty((X.nnz, items.shape[1]), dtype=self.basis.dtype)
        for users in cut(X.indptr, _ROWS_PER_BLOCK, max(_ROWS_PER_BLOCK // items.shape[1], 1)):
            bounds = X.indptr[users.start : users.stop + 1]
            history, first = X.indices[bounds[0] : bounds[-1]], bounds[0]
            scaled = self.basis[history] * self._scale[history, None]
            spread = self.basis[items[users]] / self._scale[items[users]][..., None]
            for own, (start, stop) in zip(spread, pairwise(bounds), strict=True):
                terms[start:stop] = (own @ scaled[start - first : stop - first].T).T
        return terms

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
