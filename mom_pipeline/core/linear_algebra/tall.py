"""Products of tall matrices, rows in blocks on threads of our own.

At this shape BLAS's threads wait for each other. A block is used while it is in the cache; sums
over the rows are added in a fixed order, in double precision.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy import linalg

from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

_ROWS_PER_BLOCK = 8192

Result = TypeVar("Result")


def cross(A: Array, B: Array) -> Float64:
    """Return A.T @ B. A, B: (D, any)."""
    return _added(lambda rows: A[rows].T @ B[rows], len(A))


def subtract_product(G: Array, V: Array, C: Float64) -> Float64:
    """Subtract V C from G in place, and return G.T @ G of what is left."""
    C = C.astype(G.dtype)

    def block(rows: slice) -> Array:
        G[rows] -= V[rows] @ C
        return np.asarray(G[rows].T @ G[rows])

    return _added(block, len(G))


def multiply(A: Array, F: Float64, out: Array, *, scale: Float64 | None = None) -> Array:
    """Write diag(scale) A F to the first columns of `out`, which may be A itself; return them."""
    F = F.astype(A.dtype)
    factors = None if scale is None else scale[:, None].astype(A.dtype)
    result = out[:, : F.shape[1]]

    def block(rows: slice) -> None:
        result[rows] = A[rows] @ F
        if factors is not None:
            result[rows] *= factors[rows]

    _each(block, len(A))
    return result


def with_positive_sums(Q: Array) -> Array:
    """Return a copy with the sign of every column such that the same data give the same."""
    signs = np.where(
        _added(lambda rows: Q[rows].sum(axis=0, dtype=float), len(Q)) < 0, -1, 1
    ).astype(Q.dtype)
    result = np.empty(Q.shape, dtype=Q.dtype)
    _each(lambda rows: np.multiply(Q[rows], signs, out=result[rows]), len(Q))
    return result


def orthonormal_into(room: Array, Q: Array, gram: Float64, at_most: int | None = None) -> Array:
    """Write an orthonormal basis of the columns of Q to the first columns of `room`, return them.

    Cholesky-QR, done twice. Columns that depend on the others are dropped, and where there are
    more than `at_most`, the directions with the largest norms are kept. Q is written over.
    gram: Q.T @ Q, which the caller often has.
    """
    precision = float(np.finfo(Q.dtype).eps)
    Q = multiply(Q, _cholesky_qr(gram, precision, at_most), out=Q)
    return multiply(Q, _cholesky_qr(cross(Q, Q), precision, at_most), out=room)


def _cholesky_qr(gram: Float64, precision: float, at_most: int | None) -> Float64:
    """F (columns, at most columns) such that Q F is orthonormal up to rounding, from Q.T Q."""
    if not len(gram):
        return gram
    norms = np.sqrt(np.diag(gram))
    lengths = np.where(norms > 0, norms, 1.0)
    if at_most is None or len(gram) <= at_most:
        try:
            R = linalg.cholesky(gram / np.outer(lengths, lengths))
            if np.diag(R).min() > 4 * np.sqrt(precision):
                return np.asarray(linalg.solve_triangular(R, np.eye(len(R))) / lengths[:, None])
        except linalg.LinAlgError:
            pass  # dependent columns: the eigenvectors below tell which to keep
    w, V = np.linalg.eigh(gram)
    independent = np.flatnonzero(w > 10 * len(w) * precision * max(w[-1], 0.0))
    kept = independent[::-1][:at_most]
    return np.asarray(V[:, kept] / np.sqrt(w[kept]))


def _added(work: Callable[[slice], Array], n_rows: int) -> Float64:
    """Add up what every block of rows gives."""
    total: Float64 = np.sum(_each(work, n_rows), axis=0, dtype=np.float64)
    return total


def _each(work: Callable[[slice], Result], n_rows: int) -> list[Result]:
    """Return the results of the work on every block of rows, in order."""
    starts = range(0, n_rows, _ROWS_PER_BLOCK)
    return map_blocks(work, [slice(start, start + _ROWS_PER_BLOCK) for start in starts])
