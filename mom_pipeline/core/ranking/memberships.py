"""P[component | user] from a user's items, O and pi (paper, equation 8)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr

RuleName = Literal["product", "tempered", "em"]

# Events handled at a time: the arrays of K numbers per event stay within some 30 MB.
_EVENTS_PER_BLOCK = 65_536
# Memberships below this share of the largest one are zero: as subnormal numbers of single
# precision they would slow every later product down fourfold.
_NEGLIGIBLE = 1e-20


@dataclass(frozen=True)
class Personalization:
    """How a history becomes memberships."""

    rule: RuleName = "product"  # "product" (Bayes, the paper's), "tempered" or "em" with O fixed
    temperature: float = 0.5  # power of the likelihood, of "tempered"
    em_steps: int = 5  # on the user's own mixture
    smoothing: float = 0.05  # share of popularity in O, so that no item rules a component out

    @classmethod
    def from_settings(cls, settings: Any) -> Self:
        return cls(
            settings.personalization, settings.temperature, settings.em_steps, settings.smoothing
        )

    def __post_init__(self) -> None:
        if self.rule not in ("product", "tempered", "em"):
            raise InvalidSetting(
                f"personalization must be 'product', 'tempered' or 'em', found {self.rule!r}"
            )
        if not 0 <= self.smoothing < 1:
            raise InvalidSetting(f"smoothing must lie between 0 and 1, found {self.smoothing}")
        if self.temperature <= 0 or self.em_steps < 1:
            raise InvalidSetting(
                "temperature must be above 0 and em_steps at least 1, found "
                f"{self.temperature} and {self.em_steps}"
            )


def smoothed(item_probs: Array, popularity: Array, smoothing: float) -> Array:
    """Return (1 - s) O + s popularity, strictly positive. item_probs: (D, K).

    Without smoothing a zero becomes the smallest positive number, which a logarithm needs.
    """
    if smoothing == 0:
        return np.maximum(item_probs, np.finfo(item_probs.dtype).tiny)
    positive = popularity + 1.0 / len(popularity) ** 2
    background = (smoothing * positive / positive.sum()).astype(item_probs.dtype)
    result = item_probs * item_probs.dtype.type(1 - smoothing)
    result += background[:, None]
    return np.asarray(result)


def memberships(X: Csr, item_probs: Array, weights: Array, settings: Personalization) -> Array:
    """Return P[component | user], (N, K), rows sum to 1; an empty history gives pi.

    item_probs: (D, K), strictly positive (see `smoothed`).  weights: (K,).
    """
    if settings.rule == "em":
        block_rule = _em_rule(item_probs, weights, settings.em_steps)
    else:
        power = 1.0 if settings.rule == "product" else settings.temperature
        log_O = np.log(item_probs) if X.nnz >= len(item_probs) else None
        block_rule = _bayes_rule(item_probs, log_O, weights, power)
    if X.shape[0] == 1:
        return block_rule(X)
    P = np.empty((X.shape[0], len(weights)), dtype=item_probs.dtype)

    def block(users: slice) -> None:
        P[users] = block_rule(X[users])

    map_blocks(block, user_blocks(X))
    return P


def posterior_entropy(P: Array) -> Array:
    """Return the entropy of every user's memberships in bits, (N,)."""
    bits = np.empty(len(P))
    for start in range(0, len(P), _EVENTS_PER_BLOCK):
        users = slice(start, start + _EVENTS_PER_BLOCK)
        bits[users] = -(P[users] * np.log2(np.maximum(P[users], np.finfo(np.float64).tiny))).sum(1)
    return bits


def user_blocks(X: Csr) -> list[slice]:
    """Cut the users into runs of about `_EVENTS_PER_BLOCK` events, at least one user each."""
    cuts = np.searchsorted(X.indptr, np.arange(0, X.nnz, _EVENTS_PER_BLOCK)[1:])
    edges = np.unique(np.concatenate([[0], cuts, [X.shape[0]]]))
    longest = 4096
    return [
        slice(start, min(start + longest, stop))
        for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        for start in range(begin, stop, longest)
    ]


def _bayes_rule(O: Array, log_O: Array | None, pi: Array, power: float) -> Callable[[Csr], Array]:
    """Bayes' rule in log space (paper, equation 8).

    log P[k | u] = log pi_k + power * sum_y x_uy log O_yk  - log-sum-exp

    log_O: (D, K), or None to take the logarithms of a block's own items alone.
    """
    log_pi = _log(pi)

    def rule(X: Csr) -> Array:
        if log_O is None:
            log_P = _sums_of_events(X, X.data.astype(O.dtype), np.log(O[X.indices]))
        else:
            log_P = X.astype(O.dtype) @ log_O
        log_P = log_P.astype(np.float64)
        log_P *= power
        log_P += log_pi
        log_P -= log_P.max(axis=1, keepdims=True)
        # What is left are small numbers next to the largest, and single precision suffices.
        P = np.exp(log_P.astype(O.dtype))
        P *= P >= _NEGLIGIBLE
        P /= P.sum(axis=1, keepdims=True)
        return np.asarray(P)

    return rule


def _em_rule(O: Array, pi: Array, steps: int) -> Callable[[Csr], Array]:
    """EM on the user's mixture weights, starting from pi, with O fixed.

    theta_k <- 1/n_u sum_y x_uy theta_k O_yk / sum_h theta_h O_yh
    """

    def rule(X: Csr) -> Array:
        O_of_events, x = O[X.indices], X.data.astype(O.dtype)
        sizes = np.diff(X.indptr)
        users, empty = np.repeat(np.arange(len(sizes)), sizes), np.flatnonzero(sizes == 0)
        theta = np.tile(pi.astype(O.dtype), (len(sizes), 1))
        x /= np.bincount(users, weights=x, minlength=1)[users]
        for _ in range(steps):
            theta *= _sums_of_events(X, x / _likelihoods(O_of_events, theta, users), O_of_events)
            if len(empty):
                theta[empty] = pi
        theta /= theta.sum(axis=1, keepdims=True)
        return theta

    return rule


def _likelihoods(rows: Array, theta: Array, users: Array) -> Array:
    """Return sum_k rows_ek theta_uk of every event e and its user u, (events,)."""
    if len(theta) == 1:
        return np.asarray(rows @ theta[0])
    return np.einsum("ek,ek->e", rows, theta[users])


def _sums_of_events(X: Csr, weights: Array, rows: Array) -> Array:
    """sum_e weights_e rows_e over the events of each user of X, (users, K)."""
    if X.shape[0] == 1:
        return np.asarray(weights @ rows)[None]
    positions = np.arange(X.nnz, dtype=X.indptr.dtype)
    return sparse.csr_array((weights, positions, X.indptr), (X.shape[0], X.nnz)) @ rows


def _log(values: Array) -> Array:
    return np.log(np.maximum(values, np.finfo(np.float64).tiny))
