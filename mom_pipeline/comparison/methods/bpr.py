"""Bayesian personalised ranking (Rendle and others, 2009), by `implicit`."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    as_user_items,
    filled,
    in_range,
    missing_implicit,
    whole,
)
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import require_events
from mom_pipeline.core.threads import one_blas_thread
from mom_pipeline.core.types import Array, Csr

DEFAULTS: dict[str, Setting] = {
    "factors": 100,
    "learning_rate": 0.05,
    "regularization": 0.03,
    "iterations": 300,
}


def fit_bpr(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Learn factors by gradient steps on pairs of a taken and a sampled item.

        max sum log sigmoid(f_u . (g_y - g_z) + b_y - b_z) - regularization (|f|^2 + |g|^2 + b^2)

    One thread: with several the result depends on which of them writes last. Counts do not
    matter to it. X: (N, D). The scorer knows the histories of the fit only; see `KnownUsers`.
    """
    require_events(X)
    model = trained_bpr(X, settings, seed, n_threads=1)
    users = KnownUsers.from_factors(X, model.user_factors)
    item_factors = model.item_factors

    def scores(rows: Csr) -> Array:
        return np.asarray(users.factors_of(rows) @ item_factors.T)

    return Fitted(scores)


def trained_bpr(X: Csr, settings: Settings, seed: int, *, n_threads: int) -> Any:
    """Return the library's own model, trained by `n_threads` of its threads.

    It has `user_factors`, (N, F), and `item_factors`, (D, F). Several threads are quicker, but
    write over each other: only one gives the same factors again.
    """
    chosen = filled(settings, DEFAULTS)
    try:
        from implicit.cpu.bpr import BayesianPersonalizedRanking
    except ImportError as error:
        raise missing_implicit("BPR", error) from error
    # The library's own threads call BLAS for small matrices; threads of both are far slower.
    with one_blas_thread():
        model = BayesianPersonalizedRanking(
            factors=whole("factors", chosen["factors"]),
            learning_rate=in_range("learning_rate", chosen["learning_rate"], 0, above=True),
            regularization=in_range("regularization", chosen["regularization"], 0),
            iterations=whole("iterations", chosen["iterations"]),
            num_threads=n_threads,
            random_state=seed,
        )
        model.fit(as_user_items(X), show_progress=False)
    return model


@dataclass(frozen=True)
class KnownUsers:
    """Factors of users, looked up by their history.

    BPR learns the factors of a user along with those of the items, and has no rule for a
    history that was not in the fit. Users with the same history share the mean of their factors.

    fingerprints: (histories,) ascending.  factors: (histories, F).  mean: (F,), of all users.
    """

    fingerprints: Array
    factors: Array
    mean: Array

    @classmethod
    def from_factors(cls, X: Csr, factors: Array) -> Self:
        """Remember the factors, (N, F), of the users with the histories X, (N, D)."""
        fingerprints, group = np.unique(row_fingerprints(X), return_inverse=True)
        N = len(group)
        sums = sparse.csr_array((np.ones(N), (group, np.arange(N))), (len(fingerprints), N))
        means = (sums @ factors) / np.bincount(group)[:, None]
        mean = factors[np.diff(X.indptr) > 0].mean(axis=0)
        return cls(fingerprints, means.astype(factors.dtype), mean)

    def factors_of(self, rows: Csr) -> Array:
        """Return (users, F); an empty history gets the mean user.

        Raises InvalidInteractions for a history that no user had in the fit.
        """
        wanted = row_fingerprints(rows)
        known = np.minimum(np.searchsorted(self.fingerprints, wanted), len(self.factors) - 1)
        empty = np.diff(rows.indptr) == 0
        unknown = int(((self.fingerprints[known] != wanted) & ~empty).sum())
        if unknown:
            raise InvalidInteractions(
                f"BPR knows only the histories of its fit, found {unknown} others among "
                f"{rows.shape[0]}; fit it on these users too"
            )
        return np.where(empty[:, None], self.mean, self.factors[known])


def row_fingerprints(X: Csr) -> Array:
    """Return a 64-bit number per row that depends on its items and counts, in any order: (N,).

    Sums of random numbers per item and count, modulo 2^64: two of a million different rows
    agree with a probability below 1e-7.
    """
    keys = np.random.default_rng(20_180).integers(1, 2**63, size=X.shape[1], dtype=np.uint64)
    bits = np.ascontiguousarray(X.data, dtype=np.float64).view(np.uint64)
    mixed = (keys[X.indices] ^ bits) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return np.asarray(running[X.indptr[1:]] - running[X.indptr[:-1]])


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
