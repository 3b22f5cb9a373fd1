"""Weighted regularised matrix factorisation (Hu, Koren and Volinsky, 2008), by `implicit`."""

import numpy as np

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    as_user_items,
    filled,
    in_range,
    missing_implicit,
    weighted,
    whole,
)
from mom_pipeline.core.interactions import require_events
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr

DEFAULTS: dict[str, Setting] = {
    "factors": 100,
    "regularization": 20.0,
    "alpha": 2.0,
    "iterations": 15,
    "values": "binary",
}


def fit_wrmf(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Factorise by alternating least squares, and score a history by its own least squares.

        min sum_uy c_uy (p_uy - f_u . g_y)^2 + regularization (|f|^2 + |g|^2),
        p_uy = [x_uy > 0],   c_uy = alpha x_uy where x_uy > 0, else 1

    The factors of a user are solved for from the history given, so that new users are no
    special case. X: (N, D).
    """
    chosen = filled(settings, DEFAULTS)
    require_events(X)
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError as error:
        raise missing_implicit("WRMF", error) from error
    # The library's own threads call BLAS for small matrices; threads of both are far slower.
    with one_blas_thread():
        model = AlternatingLeastSquares(
            factors=whole("factors", chosen["factors"]),
            regularization=in_range("regularization", chosen["regularization"], 0),
            alpha=in_range("alpha", chosen["alpha"], 0, above=True),
            iterations=whole("iterations", chosen["iterations"]),
            random_state=seed,
        )
        model.fit(as_user_items(weighted(X, chosen["values"])), show_progress=False)
    # The caller's blocks of users already keep all cores busy.
    model.num_threads = 1
    _ = model.YtY  # computed on first use, and not by several threads at a time

    def scores(rows: Csr) -> Array:
        user_items = as_user_items(weighted(rows, chosen["values"]))
        f = model.recalculate_user(np.arange(rows.shape[0]), user_items)
        return np.asarray(f @ model.item_factors.T)

    return Fitted(scores)


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
