"""The inverse of a positive definite matrix, in its own memory."""

import numpy as np
from scipy.linalg import lapack

from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array

# The threads of OpenBLAS crash in LAPACK's Cholesky from between 22,000 and 30,000 rows on.
_LAPACK_ROWS = 20_000
_BLOCK = 1024


def invert_in_place(A: Array) -> bool:
    """Write A^-1 over A, (D, D), symmetric and positive definite; False where it is not.

    What was in A is lost also where the inverse does not exist.
    """
    inverted = _by_cholesky(A) if len(A) <= _LAPACK_ROWS else _by_sweeping(A)
    if inverted:
        _mirror_lower(A)
    return inverted


def _by_cholesky(A: Array) -> bool:
    """Compute the lower triangle of the inverse by LAPACK."""
    single = A.dtype == np.float32
    factorise = lapack.spotrf if single else lapack.dpotrf
    invert = lapack.spotri if single else lapack.dpotri
    # LAPACK writes over columns; the lower triangle of rows is the upper one of columns.
    by_columns = A.T
    factor, failed = factorise(by_columns, lower=False, overwrite_a=True, clean=False)
    if not failed:
        _, failed = invert(factor, lower=False, overwrite_c=True)
    return not failed


def _by_sweeping(A: Array) -> bool:
    """Compute the lower triangle of the inverse, one block k of rows after another.

        A_kk <- -A_kk^-1,   A_ik <- C_i A_kk^-1,   A_ij <- A_ij - C_i A_kk^-1 C_j^T

    C: the columns of k in the rows of all others. After all blocks A is minus its inverse.
    """
    D = len(A)
    for start in range(0, D, _BLOCK):
        if not _sweep(A, slice(start, min(start + _BLOCK, D))):
            return False
    np.negative(A, out=A)
    return True


def _sweep(A: Array, k: slice) -> bool:
    """Sweep the block of rows and columns k, in the lower triangle."""
    D = len(A)
    try:
        np.linalg.cholesky(A[k, k])
    except np.linalg.LinAlgError:
        return False
    inverse = np.linalg.inv(A[k, k].astype(np.float64)).astype(A.dtype)
    C = np.concatenate([A[k, : k.start].T, np.zeros_like(inverse), A[k.stop :, k]])
    swept = C @ inverse

    def stripe(start: int) -> None:
        rows = slice(start, min(start + _BLOCK, D))
        A[rows, : rows.stop] -= swept[rows] @ C[: rows.stop].T

    map_blocks(stripe, range(0, D, _BLOCK))
    A[k, : k.start] = swept[: k.start].T
    A[k.stop :, k] = swept[k.stop :]
    A[k, k] = -inverse
    return True


def _mirror_lower(A: Array) -> None:
    """Copy the lower triangle to the upper one, in place, a few columns at a time."""
    D = len(A)
    for start in range(0, D, _BLOCK):
        stop = min(start + _BLOCK, D)
        A[start:stop, stop:] = A[stop:, start:stop].T
        square = A[start:stop, start:stop]
        square[:] = np.tril(square) + np.tril(square, -1).T
