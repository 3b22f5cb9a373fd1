"""Leading eigenpairs of a matrix that is known by its products: a block Krylov method.

Each pass multiplies a narrow block by M2 and makes it orthogonal to all blocks before (Cholesky-QR,
twice); Rayleigh-Ritz takes the best from their span.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg

from mom_pipeline.core.linear_algebra.tall import (
    cross,
    multiply,
    orthonormal_into,
    subtract_product,
    with_positive_sums,
)
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Float64

# Below this many items LAPACK is always quicker; above, where `is_direct` says so.
DIRECT_ITEMS = 600
# Bytes of a matrix that may be written out where its products are quicker so.
_DENSE_BYTES = 2**28
# What LAPACK needs for D items, in products D x D x D.
_DIRECT_PRODUCTS = 4
# What the Ritz values of w columns need, in products w x w x w, on the mean of passes.
_RITZ_PRODUCTS = 4
# Columns multiplied in one pass, as a share of those that are wanted, and at least this many.
_BLOCK_SHARE, _MIN_BLOCK = 4, 8
# So many times as wide as what is wanted the span is in the end.
_SPAN_FACTOR = 3
# A column that loses more than this of its length to the span is made orthogonal once more.
_REPEAT_BELOW = 0.1
# Single precision from this size of a D x K' block on: rounding is far below the statistical error.
_SINGLE_FROM = 1_000_000
# Random columns that look for what a span has lost.
_PROBES = 8


class SymmetricOperator(Protocol):
    """A symmetric D x D matrix known by its products. explicit: the matrix, made when read."""

    @property
    def n_items(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.floating]: ...
    @property
    def explicit(self) -> Array: ...
    def apply(self, Q: Array, /) -> Array: ...


@dataclass(frozen=True)
class Eigenpairs:
    """Leading eigenpairs, largest first."""

    values: Float64  # (k,)
    vectors: Array  # (D, k), orthonormal, each with a positive sum
    passes: int  # products with M2 that it took
    residual: float  # largest ||M2 v - value v|| / values[0] of those wanted


def top_eigenpairs(
    M2: SymmetricOperator,
    k: int,
    rng: np.random.Generator,
    *,
    warm_start: Array | None = None,
    tol: float = 1e-5,
    max_passes: int = 10,
) -> Eigenpairs:
    """Return the k (and the guard) leading eigenpairs of M2, by LAPACK where that is quicker.

    Stops when a pass adds less than `tol` to the sum of the k leading Ritz values, or after
    `max_passes`. warm_start: (D, any) columns to begin with.
    """
    D = M2.n_items
    width, block = guarded_width(k, D), block_width(k, D)
    if is_direct(M2, k, max_passes):
        return _by_lapack(M2.explicit, width)
    start = rng.standard_normal((D, block), dtype=np.float32) if warm_start is None else warm_start
    capacity = min(D, start.shape[1] + block * max(max_passes - 1, 1))
    span = _Span(M2, start.astype(M2.dtype), capacity)
    captured = 0.0
    while True:
        remainder = span.expand()
        if span.passes >= max_passes or span.width == D:
            break
        if span.width >= width:
            before, captured = captured, float(span.ritz()[0][:k].sum())
            if captured - before <= tol * captured:
                break
        span.append(remainder, min(block, D - span.width))
    values, residuals = span.ritz()[0], span.residuals()
    scale = max(abs(float(values[0])), np.finfo(np.float64).tiny)
    vectors = with_positive_sums(span.leading(width))
    return Eigenpairs(values[:width], vectors, span.passes, float(residuals[:k].max()) / scale)


def _by_lapack(M2: Array, width: int) -> Eigenpairs:
    D = len(M2)
    with one_blas_thread():  # LAPACK's threads gain little here, and lose much under load
        values, vectors = linalg.eigh(M2, subset_by_index=(D - width, D - 1))
    vectors = with_positive_sums(vectors[:, ::-1])
    return Eigenpairs(values[::-1].astype(np.float64), vectors, 1, 0.0)


def is_direct(M2: SymmetricOperator, k: int, passes: int) -> bool:
    """Tell whether LAPACK gives the k leading eigenpairs of M2, written out, sooner."""
    D, width, block = M2.n_items, guarded_width(k, M2.n_items), block_width(k, M2.n_items)
    if not fits_dense(D * D * M2.dtype.itemsize):
        return False
    if D <= DIRECT_ITEMS:
        return True
    # The span grows from one block to three widths; its middle stands for all passes.
    span = min(D, (block + _SPAN_FACTOR * width) // 2)
    one_pass = 4 * D * span * block + _RITZ_PRODUCTS * span**3
    return passes * one_pass >= _DIRECT_PRODUCTS * D**3


def fits_dense(n_bytes: int) -> bool:
    """Return whether a matrix of so many bytes may be written out."""
    return n_bytes <= _DENSE_BYTES


def guarded_width(k: int, D: int) -> int:
    """Return K' = 1.25 K, at least K + 8: the guard columns that speed up the last ones."""
    return min(D, max(k + 8, -(-5 * k // 4)))


def block_width(k: int, D: int) -> int:
    """Return how many columns one pass multiplies."""
    return min(D, max(_MIN_BLOCK, -(-guarded_width(k, D) // _BLOCK_SHARE)))


def working_precision(k: int, D: int) -> type[np.floating]:
    """Return the precision that suits blocks of D x K'."""
    return np.float32 if D * guarded_width(k, D) >= _SINGLE_FROM else np.float64


def ritz_values_beyond(
    M2: SymmetricOperator, U: Array, H: Float64, rng: np.random.Generator
) -> Float64:
    """Return the Ritz values of a span U, widened by what lies outside of it, largest first.

        Q = orth( (I - U U.T) M2 Z ),  Z random;     values of  [U Q].T M2 [U Q]

    U: (D, K') orthonormal.  H = U.T M2 U is known already: two narrow passes.
    """
    D = M2.n_items
    if D <= DIRECT_ITEMS and fits_dense(D * D * M2.dtype.itemsize):
        return np.linalg.eigvalsh(M2.explicit)[::-1]
    Z = rng.standard_normal((D, min(_PROBES, D)), dtype=np.float32).astype(M2.dtype)
    Q = M2.apply(Z)
    _, gram = _leave_span(Q, U)
    Q = orthonormal_into(np.empty_like(Q), Q, gram)
    M2_Q = M2.apply(Q)
    C = cross(U, M2_Q)
    widened = np.block([[H, C], [C.T, cross(Q, M2_Q)]])
    return np.linalg.eigvalsh((widened + widened.T) / 2)[::-1]


def _leave_span(G: Array, V: Array) -> tuple[Float64, Float64]:
    """Subtract from G, in place, what lies in the span of V; return V.T G, and G.T G of the rest.

    Once more where a column of the rest is little more than the rounding of what was subtracted:
    ||M2 v||^2 = ||C||^2 + ||rest||^2,  C = V.T M2 v.
    """
    C = cross(V, G)
    gram = subtract_product(G, V, C)
    rest, inside = np.diag(gram), (C**2).sum(axis=0)
    if (rest < _REPEAT_BELOW**2 * (rest + inside)).any():
        gram = subtract_product(G, V, cross(V, G))
    return C, gram


class _Span:
    """Orthonormal columns V, in one array for one product, and H = V.T M2 V."""

    def __init__(self, M2: SymmetricOperator, start: Array, capacity: int) -> None:
        self.M2 = M2
        self.passes = 0
        self._columns = np.empty((M2.n_items, capacity), dtype=M2.dtype)
        self._n_columns = 0
        self._H = np.zeros((0, 0))
        self._pairs: tuple[Float64, Float64] | None = None
        self._remainder_gram = cross(start, start)
        self.append(start)

    @property
    def width(self) -> int:
        """Return the number of columns that M2 has been applied to."""
        return len(self._H)

    def append(self, remainder: Array, at_most: int | None = None) -> None:
        """Add an orthonormal basis of what `expand` returned, at most so many directions of it."""
        room = self._columns[:, self._n_columns :]
        new = orthonormal_into(room, remainder, self._remainder_gram, at_most)
        self._n_columns += new.shape[1]

    def expand(self) -> Array:
        """Apply M2 to the newest columns, complete H, and return what leaves the span."""
        old, V = self.width, self._columns[:, : self._n_columns]
        G = self.M2.apply(V[:, old:])
        self.passes += 1
        C, self._remainder_gram = _leave_span(G, V)
        H = np.empty((self._n_columns, self._n_columns))
        H[:old, :old] = self._H
        H[:, old:] = C
        H[old:, :old] = C[:old].T
        self._H, self._pairs = (H + H.T) / 2, None
        return G

    def ritz(self) -> tuple[Float64, Float64]:
        """Return the eigenvalues of H, largest first, and its eigenvectors."""
        if self._pairs is None:
            with one_blas_thread():  # more of them are slower at this size
                values, E = np.linalg.eigh(self._H)
            self._pairs = values[::-1], E[:, ::-1]
        return self._pairs

    def residuals(self) -> Float64:
        """Norms ||M2 v - value v|| of the Ritz pairs: the newest columns alone leave the span."""
        newest = self.ritz()[1][self.width - len(self._remainder_gram) :]
        squares = np.einsum("ik,ij,jk->k", newest, self._remainder_gram, newest, optimize=True)
        return np.sqrt(np.maximum(squares, 0.0))

    def leading(self, width: int) -> Array:
        """Return the leading Ritz vectors, (D, at most width), which take the place of the span."""
        E = self.ritz()[1][:, :width]
        return multiply(self._columns[:, : len(E)], E, out=self._columns)
