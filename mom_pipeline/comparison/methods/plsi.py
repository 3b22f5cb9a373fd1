"""Probabilistic latent semantic indexing by EM (Hofmann, 1999), as the paper runs it."""

from typing import Any, NamedTuple

import numpy as np

from mom_pipeline.comparison.methods.interface import Fitted, Method
from mom_pipeline.core.interactions import RowsName, require_events, weighted_rows
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

# The paper's rule: EM ends with a step that gains less than this share of the log-likelihood.
TOLERANCE = 0.001
# From this many numbers in P[component | user] on, single precision.
_SINGLE_FROM = 10_000_000
# Entries whose factors are gathered at a time: they stay in cache.
_ENTRIES_PER_BLOCK = 4096


def fit_plsi(
    X: Csr,
    seed: int,
    *,
    n_components: int = 100,
    em_steps: int = 20,
    smoothing: float = 0.01,
    values: RowsName = "counts",
    **em: Any,
) -> Fitted:
    """Fit P[y | u] = sum_k P[y | k] P[k | u] to the counts, and score by it.

    A history is folded in by `em_steps` steps of EM with P[y | k] fixed. `smoothing` is the share
    of popularity in P[y | k] during these steps.
    X: (N, D).  em: see `expectation_maximisation`.
    """
    require_events(X)
    counts, rng = weighted_rows(X, values), np.random.default_rng(seed)
    fit = expectation_maximisation(counts, n_components, rng, **em)
    item_events, events = counts.sum(axis=0), counts.sum(axis=1)
    pi = events @ fit.memberships / events.sum()
    O = smoothed(fit.item_probs, item_events / item_events.sum(), smoothing)
    rule = Personalization("em", em_steps=em_steps, smoothing=smoothing)

    def scores(users: Array) -> Array:
        return np.asarray(memberships(counts[users], O, pi, rule) @ fit.item_probs.T)

    L = fit.log_likelihoods
    converged = has_converged(L, em.get("tol", TOLERANCE))
    notes = {"iterations": len(L) - 1, "log_likelihood": L[-1], "converged": converged}
    return Fitted(scores, notes)


class Mixture(NamedTuple):
    """What EM arrived at.

    item_probs: O = P[item | component], (D, K).  memberships: theta = P[component | user], (N, K).
    log_likelihoods: before every step, and after the last one.
    """

    item_probs: Array
    memberships: Array
    log_likelihoods: list[float]


def expectation_maximisation(
    X: Csr,
    n_components: int,
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    tol: float = TOLERANCE,
    max_iterations: int = 500,
) -> Mixture:
    """Run EM until L_t - L_{t-1} < tol |L_{t-1}| (paper, section 4).

        R_uy = x_uy / sum_k theta_uk O_yk,
        theta <- theta * (R O),   O <- O * (R^T theta),   each normalised

    With a temperature b below 1, theta^b and O^b stand in for theta and O on the right, and L is
    1/b sum x log sum_k (theta O)^b, which these steps never lower (Hofmann's tempered EM).
    X: (N, D) counts.
    """
    (N, D), b = X.shape, temperature
    dtype = np.float32 if N * n_components >= _SINGLE_FROM else np.float64
    theta = _distributions(rng, N, n_components).astype(dtype)
    O = np.ascontiguousarray(_distributions(rng, n_components, D).T.astype(dtype))
    X = X.astype(dtype)
    idle = np.diff(X.indptr) == 0
    L: list[float] = []
    while True:
        theta_b, O_b = _power(theta, b), _power(O, b)
        R, level = _ratios(X, theta_b, O_b)
        L.append(level / b)
        if len(L) > max_iterations or has_converged(L, tol):
            return Mixture(O, theta, L)
        theta_new, O_new = theta_b * (R @ O_b), O_b * (R.T @ theta_b)
        O = O_new / _or_one(O_new.sum(axis=0, dtype=np.float64).astype(dtype))
        theta_new /= _or_one(theta_new.sum(axis=1, keepdims=True))
        theta_new[idle] = theta[idle]
        theta = theta_new


def has_converged(L: list[float], tol: float) -> bool:
    """Tell whether the last step gained less than `tol` of the level."""
    return len(L) > 1 and L[-1] - L[-2] < tol * abs(L[-2])


def _ratios(X: Csr, theta: Array, O: Array) -> tuple[Csr, float]:
    """Return R, (N, D), and sum x log p, by blocks of entries on all cores."""
    x, items = X.data, X.indices
    users = np.repeat(np.arange(X.shape[0], dtype=items.dtype), np.diff(X.indptr))
    R = X.copy()

    def block(start: int) -> float:
        e = slice(start, start + _ENTRIES_PER_BLOCK)
        p = np.einsum("ek,ek->e", theta[users[e]], O[items[e]])
        p = np.maximum(p, np.finfo(p.dtype).tiny)
        R.data[e] = x[e] / p
        return float(x[e].astype(np.float64) @ np.log(p.astype(np.float64)))

    return R, sum(map_blocks(block, range(0, len(x), _ENTRIES_PER_BLOCK)))


def _distributions(rng: np.random.Generator, n: int, size: int) -> Array:
    """Draw n distributions over `size` values, all equally likely: (n, size).

    Near the uniform one EM hardly moves at first, and the stopping rule would end it there.
    """
    draws = rng.standard_exponential((n, size))
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def _power(values: Array, exponent: float) -> Array:
    return values if exponent == 1 else np.power(values, exponent)


def _or_one(sums: Array) -> Array:
    """Return the sums to divide by; a component or user without any mass stays without."""
    return np.where(sums > 0, sums, 1)


PLSI = Method("plsi", "PLSI", fit_plsi, size="n_components")
