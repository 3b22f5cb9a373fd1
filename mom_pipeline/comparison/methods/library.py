"""Rivals by the library `implicit`: item-kNN, WRMF and BPR."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.interface import Fitted, Method, MissingLibrary, weighted
from mom_pipeline.core.interactions import require_events
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr


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
    X: Csr, seed: int, *, neighbours: int = 100, weighting: str = "Cosine", values: str = "binary"
) -> Fitted:
    """Score an item by its similarity to those of the history, of which it is a neighbour.

    weighting: "Cosine", "TFIDF" or "BM25", the library's recommenders. Nothing is random.
    """
    with implicit_library():
        from implicit import nearest_neighbours

        model = getattr(nearest_neighbours, f"{weighting}Recommender")(K=neighbours)
        model.fit(as_user_items(weighted(X, values)), show_progress=False)
    similarity = sparse.csr_array(model.similarity)

    def scores(rows: Csr) -> Array:
        return np.asarray((weighted(rows, values) @ similarity).toarray())

    return Fitted(scores)


def fit_wrmf(
    X: Csr,
    seed: int,
    *,
    factors: int = 100,
    regularization: float = 20.0,
    alpha: float = 2.0,
    iterations: int = 15,
    values: str = "binary",
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
            factors=factors,
            regularization=regularization,
            alpha=alpha,
            iterations=iterations,
            random_state=seed,
        )
        model.fit(as_user_items(weighted(X, values)), show_progress=False)
    # The caller's blocks of users already keep all cores busy.
    model.num_threads = 1
    _ = model.YtY  # computed on first use, and not by several threads at a time

    def scores(rows: Csr) -> Array:
        user_items = as_user_items(weighted(rows, values))
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


def trained_bpr(
    X: Csr,
    seed: int,
    *,
    n_threads: int,
    factors: int = 100,
    learning_rate: float = 0.05,
    regularization: float = 0.03,
    iterations: int = 300,
) -> Any:
    """Return the library's own model, with `user_factors`, (N, F), and `item_factors`, (D, F)."""
    with implicit_library():
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        model = BayesianPersonalizedRanking(
            factors=factors,
            learning_rate=learning_rate,
            regularization=regularization,
            iterations=iterations,
            num_threads=n_threads,
            random_state=seed,
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
