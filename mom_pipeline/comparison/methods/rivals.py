"""The rivals: popularity, three models of the library `implicit`, and EASE.

`values` of a method is how it reads counts: "binary", "log" or "counts", see `weighted_rows`.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import inv

from mom_pipeline.comparison.isolated import memory_of_machine, memory_status
from mom_pipeline.comparison.methods.interface import Fitted, Method, MissingLibrary, TooLarge
from mom_pipeline.core.interactions import (
    RowsName,
    as_binary,
    require_events,
    weighted_rows,
)
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr


def fit_popularity(X: Csr, seed: int, *, values: RowsName = "binary") -> Fitted:
    """Score every item by its users ("binary") or by its events ("counts"). X: (N, D)."""
    return _same_for_all(np.asarray(weighted_rows(X, values).sum(axis=0)).ravel())


def fit_recent_popularity(
    X: Csr, seed: int, *, half_life: float = 7.0, last_days: Csr | None = None
) -> Fitted:
    """Score every item by its users of late: each counts half after `half_life` days.

    Where no day is known, all of them are of the same day.
    """
    days = as_binary(X) if last_days is None else last_days
    weights = 2 ** ((days.data - days.data.max(initial=0)) / half_life)
    return _same_for_all(np.bincount(days.indices, weights=weights, minlength=days.shape[1]))


def _same_for_all(popularity: Array) -> Fitted:
    return Fitted(lambda rows: np.tile(popularity, (rows.shape[0], 1)))


def fit_own_history(X: Csr, seed: int) -> Fitted:
    """Score every item by how often the user took it before, then by its users.

    For lists that may hold items of the history; elsewhere it is popularity.
    """
    users = np.bincount(X.indices, minlength=X.shape[1])
    tie_break = users / (users.max(initial=1) + 1)
    return Fitted(lambda rows: np.asarray(rows.toarray() + tie_break))


POPULARITY = Method(
    "popularity", "Popularity", fit_popularity, ({"values": "binary"}, {"values": "counts"})
)
RECENT_POPULARITY = Method(
    "recent-popularity",
    "Recent popularity",
    fit_recent_popularity,
    tuple({"half_life": days} for days in (7.0, 1.0, 3.0, 14.0, 30.0, 60.0, 120.0)),
    reads_days=True,
)
OWN_HISTORY = Method("own-history", "Own history", fit_own_history)


@contextmanager
def implicit_library() -> Iterator[None]:
    """Say how to install the library where it is missing.

    Its own threads call BLAS for small matrices; threads of both are far slower.
    """
    try:
        import implicit  # noqa: F401
    except ImportError as error:
        raise MissingLibrary(
            f"this needs the library implicit, which cannot be imported here ({error}); "
            "install it with: pip install 'mom-pipeline[baselines]'"
        ) from error
    with one_blas_thread():
        yield


def as_user_items(X: Csr) -> sparse.csr_matrix:
    """Return a copy of the type, precision and order of indices that `implicit` expects."""
    matrix = sparse.csr_matrix(X, dtype=np.float32, copy=True)
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.sort_indices()
    return matrix


def fit_item_knn(
    X: Csr,
    seed: int,
    *,
    neighbours: int = 100,
    weighting: str = "Cosine",
    values: RowsName = "binary",
) -> Fitted:
    """Score an item by its similarity to those of the history, of which it is a neighbour.

    weighting: "Cosine", "TFIDF" or "BM25", the library's recommenders. Nothing is random.
    """
    with implicit_library():
        from implicit import nearest_neighbours

        model = getattr(nearest_neighbours, f"{weighting}Recommender")(K=neighbours)
        model.fit(as_user_items(weighted_rows(X, values)), show_progress=False)
    similarity = sparse.csr_array(model.similarity)
    return Fitted(lambda rows: np.asarray((weighted_rows(rows, values) @ similarity).toarray()))


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
    require_events(X)
    with implicit_library():
        from implicit.cpu.als import AlternatingLeastSquares

        model = AlternatingLeastSquares(
            regularization=regularization, alpha=alpha, random_state=seed, **settings
        )
        model.fit(as_user_items(weighted_rows(X, values)), show_progress=False)
    # The caller's blocks of users already keep all cores busy.
    model.num_threads = 1
    _ = model.YtY  # computed on first use, and not by several threads at a time

    def scores(rows: Csr) -> Array:
        user_items = as_user_items(weighted_rows(rows, values))
        f = model.recalculate_user(np.arange(rows.shape[0]), user_items)
        return np.asarray(f @ model.item_factors.T)

    return Fitted(scores)


def fit_bpr(X: Csr, seed: int, **settings: Any) -> Fitted:
    """Learn factors by gradient steps on pairs of a taken and a sampled item (Rendle, 2009).

        max sum log sigmoid(f_u . (g_y - g_z) + b_y - b_z) - regularization (|f|^2 + |g|^2 + b^2)

    One thread: with several the result depends on which of them writes last. X: (N, D).
    There are factors of the users of the fit alone: their histories hold their number.
    """
    require_events(X)
    model = trained_bpr(X, seed, n_threads=1, **settings)
    histories = X.astype(np.float64)
    histories.data[:] = np.repeat(np.arange(1, X.shape[0] + 1), np.diff(X.indptr))

    def scores(rows: Csr) -> Array:
        users = rows.max(axis=1).toarray().ravel().astype(np.int64) - 1
        return np.asarray(model.user_factors[users] @ model.item_factors.T)

    return Fitted(scores, histories=histories)


def trained_bpr(X: Csr, seed: int, *, n_threads: int, **settings: Any) -> Any:
    """Return the library's own model, with `user_factors`, (N, F), and `item_factors`, (D, F)."""
    with implicit_library():
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        model = BayesianPersonalizedRanking(
            num_threads=n_threads, random_state=seed, **{**BPR.grid[0], **settings}
        )
        model.fit(as_user_items(X), show_progress=False)
    return model


ITEM_KNN = Method(
    "item-knn",
    "Item-kNN",
    fit_item_knn,
    (
        *({"neighbours": n} for n in (100, 20, 50, 200, 500)),
        {"neighbours": 100, "weighting": "TFIDF"},
        {"neighbours": 100, "weighting": "BM25"},
        {"neighbours": 500, "weighting": "BM25"},
    ),
)
# Dense shop logs want a strong regularization; sparse check-ins a weak one, and small steps.
BPR = Method(
    "bpr",
    "BPR",
    fit_bpr,
    (
        {"learning_rate": 0.05, "regularization": 0.03, "iterations": 300},
        {"learning_rate": 0.01, "regularization": 0.001, "iterations": 300},
        {"learning_rate": 0.05, "regularization": 0.003, "iterations": 300},
        {"learning_rate": 0.05, "regularization": 0.03, "iterations": 100},
        {"learning_rate": 0.05, "regularization": 0.03, "iterations": 600},
        {"learning_rate": 0.05, "regularization": 0.01, "iterations": 300},
        {"learning_rate": 0.05, "regularization": 0.05, "iterations": 300},
        {"learning_rate": 0.02, "regularization": 0.03, "iterations": 600},
        {"learning_rate": 0.05, "regularization": 0.03, "iterations": 300, "factors": 200},
    ),
    size="factors",
)
# alpha and regularization pull against each other: on dense shop logs the useful ones lie along
# a line of small alpha; sparse check-ins want a larger one, and more factors.
WRMF = Method(
    "wrmf",
    "WRMF",
    fit_wrmf,
    (
        {"alpha": 2.0, "regularization": 20.0, "factors": 100},
        {"alpha": 2.0, "regularization": 20.0, "factors": 200},
        {"alpha": 3.0, "regularization": 30.0, "factors": 200},
        {"alpha": 5.0, "regularization": 50.0, "factors": 200},
        {"alpha": 10.0, "regularization": 10.0, "factors": 200},
        {"alpha": 40.0, "regularization": 30.0, "factors": 200},
        {"alpha": 40.0, "regularization": 50.0, "factors": 400},
        {"alpha": 100.0, "regularization": 100.0, "factors": 200},
        {"alpha": 2.0, "regularization": 25.0, "factors": 200, "values": "log"},
    ),
    size="factors",
)


# Above this many items in single precision: half the memory, and rounding still far below
# what the ridge term leaves open.
_SINGLE_FROM = 10_000
# One item x item matrix, worked on in place, and the sparse products that fill it.
_MATRICES = 1.25
_SHARE_OF_MEMORY = 0.5
_THREADED_ROWS = 20_000
_COLUMNS_PER_BLOCK = 512


def fit_ease(
    X: Csr, seed: int, *, regularization: float = 300.0, values: RowsName = "binary"
) -> Fitted:
    """Fit x ~ x B with diag B = 0 by least squares with a ridge (Steck, 2019).

        P = (X^T X + lambda I)^-1,   B_ij = -P_ij / P_jj,   B_jj = 0

    X: (N, D).  B: (D, D). Nothing is random.
    """
    require_memory(X.shape[1])
    B = item_weights(weighted_rows(X, values), regularization)

    def scores(rows: Csr) -> Array:
        return np.asarray(weighted_rows(rows, values).astype(B.dtype) @ B)

    return Fitted(scores, {"precision": str(B.dtype)})


def fit_ease_with_trend(
    X: Csr,
    seed: int,
    *,
    half_life: float = 30.0,
    power: float = 0.5,
    last_days: Csr | None = None,
    **settings: Any,
) -> Fitted:
    """EASE times a power of the share of an item's users that is of late (see `fit_ease`)."""
    ease = fit_ease(X, seed, **settings)
    days = as_binary(X) if last_days is None else last_days
    recency = 2 ** ((days.data - days.data.max(initial=0)) / half_life)
    recent, users = (
        np.bincount(days.indices, weights=weights, minlength=X.shape[1])
        for weights in (recency, np.ones(days.nnz))
    )
    # Three users of the mean age beside an item's own.
    mean = recency.mean() if days.nnz else 1.0
    trend = ((recent + 3 * mean) / (users + 3)) ** power
    return Fitted(lambda rows: np.maximum(ease.scores(rows), 0.0) * trend, ease.notes)


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


def require_memory(n_items: int) -> None:
    """Raise TooLarge when B takes more than half of the machine, or than is left to this process.

    LAPACK does not survive it when the memory ends while it works.
    """
    needed = n_items**2 * np.dtype(_precision(n_items)).itemsize * _MATRICES
    allowed, why = memory_of_machine() * _SHARE_OF_MEMORY, "half of this machine"
    budget = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if budget != resource.RLIM_INFINITY:
        left = max(budget - memory_status("VmData"), 0)
        of_budget = left, f"what is left of the budget of {budget / 1e9:g} GB"
        allowed, why = min((allowed, why), of_budget)
    if needed > allowed:
        raise TooLarge(
            f"EASE over {n_items} items needs {needed / 1e9:.2f} GB, allowed are "
            f"{allowed / 1e9:.2f} GB ({why}); keep fewer items or leave EASE out"
        )


def _precision(n_items: int) -> type[np.floating]:
    return np.float32 if n_items > _SINGLE_FROM else np.float64


EASE = Method(
    "ease",
    "EASE",
    fit_ease,
    (
        *({"regularization": ridge} for ridge in (300.0, 30.0, 100.0, 1000.0, 3000.0)),
        {"regularization": 300.0, "values": "log"},
        {"regularization": 1000.0, "values": "log"},
    ),
)
EASE_WITH_TREND = Method(
    "ease-trend",
    "EASE with trend",
    fit_ease_with_trend,
    tuple(
        {"half_life": days, "power": power} for days in (30.0, 7.0, 90.0) for power in (0.5, 1.0)
    ),
    reads_days=True,
)
