"""Probabilistic latent semantic indexing by EM (Hofmann, 1999), as the paper runs it."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.interface import (
    Fitted,
    Method,
    Setting,
    Settings,
    filled,
    in_range,
    weighted,
    whole,
)
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import require_events
from mom_pipeline.core.ranking.memberships import (
    Personalization,
    memberships,
    smoothed,
    user_blocks,
)
from mom_pipeline.core.ranking.topn import Scorer
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# From this many numbers in P[component | user] on, single precision.
_SINGLE_FROM = 10_000_000
# Entries of one task, and those of it whose factors are gathered at a time: they stay in cache.
_ENTRIES_PER_TASK = 65_536
_ENTRIES_AT_A_TIME = 2048

DEFAULTS: dict[str, Setting] = {
    "n_components": 100,
    "temperature": 1.0,
    "tol": 0.001,
    "max_iterations": 500,
    "em_steps": 20,
    "smoothing": 0.01,
    "values": "counts",
}


def fit_plsi(X: Csr, settings: Settings, seed: int) -> Fitted:
    """Fit P[y | u] = sum_k P[y | k] P[k | u] to the counts, and score by it.

    A history is folded in by `em_steps` steps of EM with P[y | k] fixed, for users of the fit
    and new ones alike. `smoothing` is the share of popularity in P[y | k] during these steps.
    X: (N, D).
    """
    chosen = filled(settings, DEFAULTS)
    require_events(X)
    counts = weighted(X, chosen["values"])
    fit = expectation_maximisation(
        counts,
        whole("n_components", chosen["n_components"]),
        np.random.default_rng(seed),
        temperature=in_range("temperature", chosen["temperature"], 0, above=True),
        tol=in_range("tol", chosen["tol"], 0),
        max_iterations=whole("max_iterations", chosen["max_iterations"]),
    )
    rule = Personalization(
        "em",
        em_steps=whole("em_steps", chosen["em_steps"]),
        smoothing=in_range("smoothing", chosen["smoothing"], 0, above=True),
    )
    score = _scorer(fit, counts, rule)

    def scores(rows: Csr) -> Array:
        return score(weighted(rows, chosen["values"]))

    notes = {
        "iterations": fit.iterations,
        "log_likelihood": fit.log_likelihoods[-1],
        "converged": has_converged(fit.log_likelihoods, float(chosen["tol"])),
    }
    return Fitted(scores, notes)


def _scorer(fit: "PlsiFit", counts: Csr, rule: Personalization) -> Scorer:
    """Return the scores of folded-in histories. counts: (N, D), those of the fit."""
    item_events = np.asarray(counts.sum(axis=0)).ravel()
    events = np.asarray(counts.sum(axis=1)).ravel()
    pi = events @ fit.memberships / events.sum()
    O = fit.item_probs
    positive = smoothed(O, item_events / item_events.sum(), rule.smoothing)
    return lambda rows: memberships(rows, positive, pi, rule) @ O.T


@dataclass(frozen=True)
class PlsiFit:
    """The mixture that EM arrived at.

    item_probs: O = P[item | component], (D, K).  memberships: theta = P[component | user], (N, K).
    log_likelihoods: before every step, and after the last one.
    """

    item_probs: Array
    memberships: Array
    log_likelihoods: list[float]

    @property
    def iterations(self) -> int:
        """EM steps made."""
        return len(self.log_likelihoods) - 1


def expectation_maximisation(
    X: Csr,
    n_components: int,
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    tol: float = 0.001,
    max_iterations: int = 500,
) -> PlsiFit:
    """Run EM until L_t - L_{t-1} < tol |L_{t-1}| (paper, section 4).

        R_uy = x_uy / sum_k theta_uk O_yk,
        theta <- theta * (R O),   O <- O * (R^T theta),   each normalised

    With a temperature b below 1, theta^b and O^b stand in for theta and O on the right, and L is
    1/b sum x log sum_k (theta O)^b, which these steps never lower (Hofmann's tempered EM).
    X: (N, D) counts. Memory beside X: its entries once more, and (N + D) K numbers a few times.
    """
    if temperature > 1:
        raise InvalidSetting(f"temperature must be at most 1, found {temperature:g}")
    N, D = X.shape
    dtype = np.float32 if N * n_components >= _SINGLE_FROM else np.float64
    theta = _distributions(rng, N, n_components).astype(dtype)
    O = np.ascontiguousarray(_distributions(rng, n_components, D).T.astype(dtype))
    step = _Steps(X.astype(dtype), temperature)
    L: list[float] = []
    while True:
        theta_b, O_b = step.tempered(theta), step.tempered(O)
        R, level = step.ratios(theta_b, O_b)
        L.append(level)
        if len(L) > max_iterations or has_converged(L, tol):
            return PlsiFit(O, theta, L)
        theta_new = theta_b * step.product(R, O_b)
        O_new = O_b * step.product(step.transposed(R), theta_b)
        O = O_new / _or_one(O_new.sum(axis=0, dtype=np.float64).astype(dtype))
        theta_new /= _or_one(theta_new.sum(axis=1, keepdims=True))
        theta[step.active] = theta_new[step.active]


def has_converged(L: list[float], tol: float) -> bool:
    """Tell whether the last step gained less than `tol` of the level (paper, section 4)."""
    return len(L) > 1 and L[-1] - L[-2] < tol * abs(L[-2])


class _Steps:
    """The parts of a step that pass over the data, in blocks of rows on all cores."""

    def __init__(self, X: Csr, temperature: float) -> None:
        self.X = X
        self.b = temperature
        self.active = np.diff(X.indptr) > 0
        self._users = np.repeat(np.arange(X.shape[0], dtype=X.indices.dtype), np.diff(X.indptr))
        positions = sparse.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape)
        by_item = positions.T.tocsr()
        self._order = by_item.data
        self._by_item = sparse.csr_array(
            (X.data[self._order], by_item.indices, by_item.indptr), shape=by_item.shape
        )

    def tempered(self, factors: Array) -> Array:
        """Return the factors to the power of the temperature."""
        return factors.copy() if self.b == 1 else factors**self.b

    def ratios(self, theta: Array, O: Array) -> tuple[Csr, float]:
        """Return R, (N, D), and the log-likelihood."""
        x, items, users = self.X.data, self.X.indices, self._users
        R = self.X.copy()

        def task(start: int) -> float:
            total, end = 0.0, min(start + _ENTRIES_PER_TASK, len(x))
            for first in range(start, end, _ENTRIES_AT_A_TIME):
                e = slice(first, min(first + _ENTRIES_AT_A_TIME, end))
                p = np.einsum("ek,ek->e", theta[users[e]], O[items[e]])
                p = np.maximum(p, np.finfo(p.dtype).tiny)
                R.data[e] = x[e] / p
                total += float(x[e].astype(np.float64) @ np.log(p.astype(np.float64)))
            return total

        return R, sum(map_blocks(task, range(0, len(x), _ENTRIES_PER_TASK))) / self.b

    def transposed(self, R: Csr) -> Csr:
        """Return R^T, (D, N), whose pattern was sorted once."""
        RT = self._by_item.copy()
        RT.data = R.data[self._order]
        return RT

    def product(self, R: Csr, factors: Array) -> Array:
        """Return R @ factors."""
        result = np.empty((R.shape[0], factors.shape[1]), dtype=factors.dtype)

        def block(rows: slice) -> None:
            result[rows] = R[rows] @ factors

        map_blocks(block, user_blocks(R))
        return result


def _distributions(rng: np.random.Generator, n: int, size: int) -> Float64:
    """Draw n distributions over `size` values, all equally likely: (n, size).

    Near the uniform one EM hardly moves at first, and the stopping rule would end it there.
    """
    draws = rng.standard_exponential((n, size))
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def _or_one(sums: Array) -> Array:
    """Return the sums to divide by; a component or user without any mass stays without."""
    return np.where(sums > 0, sums, 1)


# The paper's standard form first; then fewer steps of folding in, and Hofmann's own remedy
# against fitting the users too closely.
PLSI = Method(
    "plsi",
    "PLSI",
    fit_plsi,
    (
        {"temperature": 1.0, "em_steps": 20},
        {"temperature": 1.0, "em_steps": 1},
        {"temperature": 0.9, "em_steps": 1},
        {"temperature": 0.85, "em_steps": 1},
        {"temperature": 0.8, "em_steps": 1},
        {"temperature": 0.85, "em_steps": 1, "values": "log"},
        {"temperature": 0.9, "em_steps": 1, "values": "binary"},
        {"temperature": 0.85, "em_steps": 1, "values": "binary"},
    ),
    size="n_components",
)
