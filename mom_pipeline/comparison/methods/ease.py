"""EASE: the item weights of a linear autoencoder in closed form (Steck, 2019)."""

import resource
from contextlib import nullcontext

import numpy as np
from scipy.linalg import inv

from mom_pipeline.comparison.isolated import memory_of_machine, memory_status
from mom_pipeline.comparison.methods.interface import Fitted, Method, TooLarge, weighted
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr

# Above this many items in single precision: half the memory, and rounding still far below
# what the ridge term leaves open.
_SINGLE_FROM = 10_000
# One item x item matrix, worked on in place, and the sparse products that fill it.
_MATRICES = 1.25
_SHARE_OF_MEMORY = 0.5
_THREADED_ROWS = 20_000
_COLUMNS_PER_BLOCK = 512


def fit_ease(X: Csr, seed: int, *, regularization: float = 300.0, values: str = "binary") -> Fitted:
    """Fit x ~ x B with diag B = 0 by least squares with a ridge.

        P = (X^T X + lambda I)^-1,   B_ij = -P_ij / P_jj,   B_jj = 0

    X: (N, D).  B: (D, D). Nothing is random.
    Raises TooLarge when B would take more than half of the machine's memory, or than is left
    to this process: LAPACK does not survive it when the memory ends while it works.
    """
    require_memory(X.shape[1])
    B = item_weights(weighted(X, values), regularization)

    def scores(rows: Csr) -> Array:
        return np.asarray(weighted(rows, values).astype(B.dtype) @ B)

    return Fitted(scores, {"precision": str(B.dtype)})


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
    """Raise TooLarge when the item x item matrix does not fit."""
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
