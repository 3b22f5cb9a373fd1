"""Second and third moment seen through a basis (paper, Algorithm 1, steps 1 and 4).

No D^2, D^3 or N x K^2 array is made. Like the other moments they are sums over users: those of
two blocks of users add up.
"""

import numpy as np

from mom_pipeline.core.linear_algebra.tall import cross
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import events_per_user, scaled_rows_and_columns
from mom_pipeline.core.threads import sum_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Users in one matrix product, and rows of the stacked products Y_i * Y_j: together they
# keep the operand within the second-level cache while the product is large enough for BLAS.
_USERS_PER_BLOCK = 2048
_STACKED_ROWS = 800
# Users are summed in at most so many runs, each by one thread, and the runs in their order: the
# same sums on any number of threads.
_MOST_RUNS = 32
# BLAS multiplies tiles of this many columns; products whose width is no multiple waste a tile.
_TILE = 16
# Numpy's vector loops run 1.6 times as fast on whole cache lines.
_CACHE_LINE = 64


def span_sums(
    X: Csr,
    basis: Array,
    estimator: Estimator,
    *,
    signs: Array | None = None,
    projections: Array | None = None,
) -> tuple[Float64, Float64]:
    """Return H = sum_u a_u x_u^(⊗2) and T = sum_u a'_u x_u^(⊗3), seen through a basis.

        H = sum_u a_u y_u⊗y_u,   T = sum_u a'_u y_u⊗y_u⊗y_u,   y_u = B.T x_u
        distinct:  H - sum_y c_y b_y⊗b_y,   c_y = sum_u a_u x_uy
                   T - sum_y sym3(b_y⊗b_y⊗g_y) + 2 sum_y c'_y b_y⊗b_y⊗b_y,
                   g_y = sum_u a'_u x_uy y_u,   c'_y = sum_u a'_u x_uy

    X: (N, D).  basis B: (D, K), rows b_y; its precision is that of the products.
    signs: (N,), -1 for users whose terms are to be taken away instead of added.
    projections: (N, K), to be filled with y_u, for whoever needs them again.
    Returns (K, K) and (K, K, K), symmetric, in float64; divide them by the sums' `pair_weight`
    and `triple_weight` for the moments.
    """
    n = events_per_user(X)
    a2, a3 = (estimator.term_weights(n, order)[0] for order in (2, 3))
    if signs is not None:
        a2, a3 = a2 * signs, a3 * signs
    X = X.astype(basis.dtype)
    H, T = _weighted_powers(X, a2, a3, basis, projections)
    if estimator.distinct:
        c = np.bincount(X.indices, weights=X.data * np.repeat(a2, np.diff(X.indptr)))
        b = basis[: len(c)]
        H -= cross(b, c[:, None].astype(b.dtype) * b)
        T -= _repeated_draws(X, a3, basis)
    return H, T


def _weighted_powers(
    X: Csr, a2: Float64, a3: Float64, basis: Array, projections: Array | None
) -> tuple[Float64, Float64]:
    """Return sum_u a2_u y_u⊗y_u and sum_u a3_u y_u⊗y_u⊗y_u."""
    N, K = X.shape[0], basis.shape[1]
    # The weight goes into all three factors alike: a y⊗y⊗y = (a^(1/3) y)^(⊗3).
    roots, a2 = np.cbrt(a3).astype(basis.dtype), a2.astype(basis.dtype)
    starts = range(0, N, _USERS_PER_BLOCK)

    def run(own_starts: range) -> Float64:
        """Return both sums in one array, (1 + K, K, K): H first."""
        sums = np.zeros((1 + K, K, K))
        Y = _aligned((K, _USERS_PER_BLOCK), basis.dtype)
        stacked = _aligned((_largest_stack(K) * _USERS_PER_BLOCK,), basis.dtype)
        for start in own_starts:
            users = slice(start, min(start + _USERS_PER_BLOCK, N))
            width = users.stop - users.start
            projected = X[users] @ basis
            if projections is not None:
                projections[users] = projected
            sums[0] += projected.T @ (a2[users, None] * projected)
            np.multiply(projected.T, roots[users], out=Y[:, :width])
            _add_upper_cubes(sums[1:], Y[:, :width], stacked)
        return sums

    per_run = max(-(-len(starts) // _MOST_RUNS), 1)
    runs = [starts[i : i + per_run] for i in range(0, len(starts), per_run)] or [range(0)]
    sums = sum_blocks(run, runs)
    return (sums[0] + sums[0].T) / 2, _filled(sums[1:])


def _add_upper_cubes(T: Float64, Y: Array, stacked: Array) -> None:
    """Add sum_u y_u⊗y_u⊗y_u to T[i, j, k], j, k >= i: a product per group. Y: (K, users)."""
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
    weighted = scaled_rows_and_columns(X, a, np.ones(X.shape[1]), X.dtype.type)
    rows_of_items = weighted[:, items].T.tocsr()
    c = np.asarray(rows_of_items.sum(axis=1)).ravel()
    Y = X @ basis

    def block(start: int) -> Float64:
        own = slice(start, start + _USERS_PER_BLOCK)
        b = basis[items[own]]
        h = rows_of_items[own] @ Y - (2 / 3) * c[own, None].astype(b.dtype) * b
        return _pair_products(b, h)

    starts = range(0, len(items), _USERS_PER_BLOCK)
    C = sum_blocks(block, starts) if starts else np.zeros((K, K, K))
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
    """Groups (first, start, size) of the first index, of `_STACKED_ROWS` products in tiles."""
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
