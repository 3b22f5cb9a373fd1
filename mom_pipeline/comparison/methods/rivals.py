"""The rivals: popularity, three models of `implicit`, and EASE. `values`: see `weighted_rows`."""

from contextlib import nullcontext
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import inv

from mom_pipeline.comparison.isolated import memory_of_machine
from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.core.interactions import RowsName, as_binary, require_events, weighted_rows
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr


def fit_popularity(X: Csr, seed: int, *, values: RowsName = "binary") -> Fitted:
    """Score every item by its users ("binary") or by its events ("counts"). X: (N, D)."""
    return _same_for_all(np.asarray(weighted_rows(X, values).sum(axis=0)).ravel())


def fit_recent_popularity(
    X: Csr, seed: int, *, half_life: float = 7.0, last_days: Csr | None = None
) -> Fitted:
    """Score every item by its users of late: each counts half after `half_life` days."""
    items, weights = _of_late(X, half_life, last_days)
    return _same_for_all(np.bincount(items, weights=weights, minlength=X.shape[1]))


def _same_for_all(popularity: Array) -> Fitted:
    return Fitted(lambda users: np.tile(popularity, (len(users), 1)))


def _of_late(X: Csr, half_life: float, last_days: Csr | None) -> tuple[Array, Array]:
    """Return the item of every interaction, and its weight; the same where no day is known."""
    days = as_binary(X) if last_days is None else last_days
    return days.indices, 2 ** ((days.data - days.data.max(initial=0)) / half_life)


def fit_own_history(X: Csr, seed: int) -> Fitted:
    """Score every item by how often the user took it before, then by its users: for repeats."""
    item_users = np.bincount(X.indices, minlength=X.shape[1])
    tie_break = item_users / (item_users.max(initial=1) + 1)
    return Fitted(lambda users: np.asarray(X[users].toarray() + tie_break))


def as_user_items(X: Csr) -> sparse.csr_matrix:
    """Return a copy of the type, precision and order of indices that `implicit` expects."""
    matrix = sparse.csr_matrix(X, dtype=np.float32, copy=True)
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.sort_indices()
    return matrix


def _trained(model: Any, X: Csr) -> Any:
    """Train a model of `implicit`, whose own threads call BLAS for small matrices."""
    with one_blas_thread():
        model.fit(as_user_items(X), show_progress=False)
    return model


def fit_item_knn(X: Csr, seed: int, *, neighbours: int = 100, weighting: str = "Cosine") -> Fitted:
    """Score an item by its similarity to those of the history, by "Cosine", "TFIDF" or "BM25"."""
    from implicit import nearest_neighbours

    model = getattr(nearest_neighbours, f"{weighting}Recommender")(K=neighbours)
    binary = weighted_rows(X, "binary")
    similarity = sparse.csr_array(_trained(model, binary).similarity)
    return Fitted(lambda users: np.asarray((binary[users] @ similarity).toarray()))


def fit_wrmf(
    X: Csr,
    seed: int,
    *,
    regularization: float = 20.0,
    alpha: float = 2.0,
    values: RowsName = "binary",
    **settings: Any,
) -> Fitted:
    """Factorise by alternating least squares (Hu, Koren and Volinsky, 2008).

        min sum_uy c_uy (p_uy - f_u . g_y)^2 + regularization (|f|^2 + |g|^2),
        p_uy = [x_uy > 0],   c_uy = alpha x_uy where x_uy > 0, else 1

    The factors of a user are solved for from the history given. X: (N, D).
    """
    from implicit.cpu.als import AlternatingLeastSquares

    require_events(X)
    model = AlternatingLeastSquares(
        regularization=regularization, alpha=alpha, random_state=seed, **settings
    )
    weighted = weighted_rows(X, values)
    _trained(model, weighted)
    # The caller's blocks of users already keep all cores busy.
    model.num_threads = 1
    _ = model.YtY  # computed on first use, and not by several threads at a time

    def scores(users: Array) -> Array:
        f = model.recalculate_user(np.arange(len(users)), as_user_items(weighted[users]))
        return np.asarray(f @ model.item_factors.T)

    return Fitted(scores)


def fit_bpr(
    X: Csr,
    seed: int,
    *,
    learning_rate: float = 0.05,
    regularization: float = 0.03,
    iterations: int = 300,
    num_threads: int = 1,
    **settings: Any,
) -> Fitted:
    """Learn factors by gradient steps on pairs of a taken and a sampled item (Rendle, 2009).

        max sum log sigmoid(f_u . (g_y - g_z) + b_y - b_z) - regularization (|f|^2 + |g|^2 + b^2)

    num_threads: with several the result depends on which of them writes last.
    X: (N, D).
    """
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    require_events(X)
    settings |= {"learning_rate": learning_rate, "regularization": regularization}
    settings |= {"iterations": iterations, "num_threads": num_threads, "random_state": seed}
    model = _trained(BayesianPersonalizedRanking(**settings), X)
    return Fitted(lambda users: np.asarray(model.user_factors[users] @ model.item_factors.T))


# Above this many items in single precision: half the memory, and rounding still far below
# what the ridge term leaves open.
_SINGLE_FROM = 10_000
# One item x item matrix, worked on in place, and the sparse products that fill it.
_MATRICES = 1.25
_THREADED_ROWS = 20_000
_COLUMNS_PER_BLOCK = 512


def fit_ease(
    X: Csr, seed: int, *, regularization: float = 300.0, values: RowsName = "binary"
) -> Fitted:
    """Fit x ~ x B with diag B = 0 by least squares with a ridge (Steck, 2019).

        P = (X^T X + lambda I)^-1,   B_ij = -P_ij / P_jj,   B_jj = 0

    X: (N, D).  B: (D, D). Nothing is random.
    """
    weighted, dtype = weighted_rows(X, values), _precision(X.shape[1])
    allowed, budget = memory_of_machine() / 2, getrlimit(RLIMIT_DATA)[0]
    allowed = allowed if budget == RLIM_INFINITY else min(allowed, budget)
    if X.shape[1] ** 2 * np.dtype(dtype).itemsize * _MATRICES > allowed:
        raise MemoryError  # now, and not after an hour
    B = item_weights(weighted, regularization)
    weighted = weighted.astype(dtype)
    return Fitted(lambda users: np.asarray(weighted[users] @ B), {"precision": str(B.dtype)})


def fit_ease_with_trend(
    X: Csr,
    seed: int,
    *,
    half_life: float = 30.0,
    power: float = 0.5,
    last_days: Csr | None = None,
) -> Fitted:
    """EASE times a power of the share of an item's users that is of late (see `fit_ease`)."""
    ease, (items, weights) = fit_ease(X, seed), _of_late(X, half_life, last_days)
    recent = np.bincount(items, weights=weights, minlength=X.shape[1])
    # Three users of the mean age beside an item's own.
    mean = weights.mean() if len(weights) else 1.0
    trend = ((recent + 3 * mean) / (np.bincount(items, minlength=X.shape[1]) + 3)) ** power
    return Fitted(lambda users: np.maximum(ease.scores(users), 0.0) * trend, ease.notes)


def item_weights(X: Csr, ridge: float) -> Array:
    """Return B, (D, D), computed in the memory of one such matrix."""
    D = X.shape[1]
    G = np.empty((D, D), dtype=_precision(D))
    X_by_item = X.tocsc()
    for start in range(0, D, _COLUMNS_PER_BLOCK):
        columns = slice(start, start + _COLUMNS_PER_BLOCK)
        G[columns] = (X_by_item[:, columns].T @ X).toarray()
    G[np.diag_indices(D)] += ridge
    # By columns, as LAPACK has them: only then the inverse takes the place of G.
    # The threads of OpenBLAS crash in LAPACK's Cholesky from between 22,000 and 30,000 rows on.
    with one_blas_thread() if D > _THREADED_ROWS else nullcontext():
        B = inv(G.T, overwrite_a=True, check_finite=False, assume_a="pos").T
    B /= -np.diag(B).copy()
    np.fill_diagonal(B, 0.0)
    return np.asarray(B)


def _precision(n_items: int) -> type[np.floating]:
    return np.float32 if n_items > _SINGLE_FROM else np.float64


# From the plainest to the hardest to beat.
RIVALS = (
    Method("popularity", "Popularity", fit_popularity),
    Method("recent-popularity", "Recent popularity", fit_recent_popularity, takes=("last_days",)),
    Method("own-history", "Own history", fit_own_history),
    Method("item-knn", "Item-kNN", fit_item_knn),
    Method("bpr", "BPR", fit_bpr, size="factors"),
    Method("wrmf", "WRMF", fit_wrmf, size="factors"),
    Method("ease", "EASE", fit_ease),
    Method("ease-trend", "EASE with trend", fit_ease_with_trend, takes=("last_days",)),
)
