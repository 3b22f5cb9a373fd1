"""The whitened third moment (paper, Algorithm 1, step 4), without D^3 or N x K^2 arrays.

Like the other moments it is a sum over users: `triple_sums` of two blocks of users add up.
"""

import numpy as np

from mom_pipeline.core.moments.sums import Estimator, events_per_user, scaled_rows_and_columns
from mom_pipeline.core.threads import available_cores, map_blocks, one_blas_thread
from mom_pipeline.core.types import Array, Csr, Float64

# Users in one matrix product, and rows of the stacked products Y_i * Y_j: together they
# keep the operand within the second-level cache while the product is large enough for BLAS.
_USERS_PER_BLOCK = 2048
_STACKED_ROWS = 800
# BLAS multiplies tiles of this many columns; products whose width is no multiple waste a tile.
_TILE = 16
# Numpy's vector loops run 1.6 times as fast on whole cache lines.
_CACHE_LINE = 64


def triple_sums(
    X: Csr, basis: Array, estimator: Estimator, *, signs: Array | None = None
) -> Float64:
    """Return sum_u a_u x_u^(⊗3) seen through a basis, over distinct triples if asked.

        T = sum_u a_u y_u⊗y_u⊗y_u,   y_u = B.T x_u
        distinct:  - sum_y sym3(b_y⊗b_y⊗g_y) + 2 sum_y c_y b_y⊗b_y⊗b_y,
                   g_y = sum_u a_u x_uy y_u,   c_y = sum_u a_u x_uy

    X: (N, D).  basis B: (D, K), rows b_y; its precision is that of the products.
    signs: (N,), -1 for users whose terms are to be taken away instead of added.
    Returns (K, K, K) symmetric, in float64. Divide by the sums' `triple_weight` for the moment.
    """
    a, _ = estimator.term_weights(events_per_user(X), 3)
    if signs is not None:
        a = a * signs
    X = X.astype(basis.dtype)
    T = _weighted_cubes(X, a, basis)
    if estimator.distinct:
        T -= _repeated_draws(X, a, basis)
    return T


def transformed(T: Float64, F: Float64) -> Float64:
    """Return T(F, F, F), (K, K, K). T: (K', K', K').  F: (K', K)."""
    return np.asarray(np.einsum("abc,ai,bj,ck->ijk", T, F, F, F, optimize=True))


def multiply_adds(K: int) -> int:
    """Return how many multiply-adds the kernel executes for one user."""
    return sum(g * (K - first) ** 2 for first, _, g in _row_groups(K))


def _weighted_cubes(X: Csr, a: Float64, basis: Array) -> Float64:
    """Return sum_u a_u y_u⊗y_u⊗y_u, users spread over threads in a fixed order of addition."""
    N, K = X.shape[0], basis.shape[1]
    # The weight goes into all three factors alike: a y⊗y⊗y = (a^(1/3) y)^(⊗3).
    roots = np.cbrt(a).astype(basis.dtype)
    starts = range(0, N, _USERS_PER_BLOCK)

    def partial(own_starts: range) -> Float64:
        T = np.zeros((K, K, K))
        Y = _aligned((K, _USERS_PER_BLOCK), basis.dtype)
        stacked = _aligned((_largest_stack(K) * _USERS_PER_BLOCK,), basis.dtype)
        for start in own_starts:
            users = slice(start, min(start + _USERS_PER_BLOCK, N))
            width = users.stop - users.start
            np.multiply((X[users] @ basis).T, roots[users], out=Y[:, :width])
            _add_upper_cubes(T, Y[:, :width], stacked)
        return T

    with one_blas_thread() as held:
        n_threads = max(min(available_cores(), len(starts)), 1) if held else 1
        shares = [starts[i::n_threads] for i in range(n_threads)]
        return _filled(np.sum(map_blocks(partial, shares), axis=0))


def _add_upper_cubes(T: Float64, Y: Array, stacked: Array) -> None:
    """Add sum_u y_u⊗y_u⊗y_u to T[i, j, k] for j, k >= i, one matrix product per group of i.

    Y: (K, users).  stacked: room for the products Y_i * Y_j of one group.
    """
    K, B = Y.shape
    Y_transposed = np.ascontiguousarray(Y.T)
    for first, i, g in _row_groups(K):
        w = K - first
        A = stacked[: g * w * B].reshape(g, w, B)
        np.multiply(Y[i : i + g, None, :], Y[None, first:, :], out=A)
        product = A.reshape(g * w, B) @ Y_transposed[:, first:]
        T[i : i + g, first:, first:] += product.reshape(g, w, w)


def _repeated_draws(X: Csr, a: Float64, basis: Array) -> Float64:
    """Return what triples with a repeated event add: sum_y sym3(b_y⊗b_y⊗h_y).

    h_y = g_y - (2/3) c_y b_y,  so that both corrections are one product
    """
    K = basis.shape[1]
    items = np.unique(X.indices)
    rows_of_items = scaled_rows_and_columns(X, a, np.ones(X.shape[1]), X.dtype.type)[
        :, items
    ].T.tocsr()
    c = np.asarray(rows_of_items.sum(axis=1)).ravel()
    C = np.zeros((K, K, K))
    Y = X @ basis
    for start in range(0, len(items), _USERS_PER_BLOCK):
        own = slice(start, start + _USERS_PER_BLOCK)
        b = basis[items[own]]
        h = rows_of_items[own] @ Y - (2 / 3) * c[own, None].astype(b.dtype) * b
        C += _pair_products(b, h)
    return C + C.transpose(0, 2, 1) + C.transpose(2, 1, 0)


def _pair_products(b: Array, h: Array) -> Float64:
    """Return sum_y b_y⊗b_y⊗h_y, (K, K, K), one matrix product per group of first indices."""
    _, K = b.shape
    C = np.empty((K, K, K))
    for _, i, g in _row_groups(K):
        pairs = b[:, i : i + g, None] * b[:, None, :]
        C[i : i + g] = (pairs.reshape(len(b), g * K).T @ h).reshape(g, K, K)
    return C


def _row_groups(K: int) -> list[tuple[int, int, int]]:
    """Split the first index into groups (first, start, size) that are multiplied together.

    The group's second and third indices begin at `first` <= start, so that their number
    K - first is a multiple of the tile; a group stacks about `_STACKED_ROWS` products.
    """
    groups = []
    first = 0
    while first < K:
        width = K - first
        stop = first + (width % _TILE or _TILE)
        step = max(1, _STACKED_ROWS // width)
        groups += [(first, i, min(step, stop - i)) for i in range(first, stop, step)]
        first = stop
    return groups


def _largest_stack(K: int) -> int:
    """Return the number of rows in the largest group of products."""
    return max(g * (K - first) for first, _, g in _row_groups(K))


def _filled(T: Float64) -> Float64:
    """Copy T[i, j, k], known for j, k >= i, to every order of its indices."""
    for i in range(len(T)):
        T[i:, i, i:] = T[i, i:, i:]
        T[i:, i:, i] = T[i, i:, i:]
    return T


def _aligned(shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> Array:
    """Return an empty array that begins on a cache line."""
    size = int(np.prod(shape))
    raw = np.empty(size + _CACHE_LINE // dtype.itemsize, dtype=dtype)
    offset = (-raw.ctypes.data % _CACHE_LINE) // dtype.itemsize
    return raw[offset : offset + size].reshape(shape)
