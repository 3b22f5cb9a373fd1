"""Steps of EM on O and pi from the spectral estimate: consistent by that, efficient by these.

A step is one pass over the rows, and what it adds up are sums over users; but the next step weighs
every user anew, so the refined model is no function of the moments: it cannot be updated by changed
users alone, and is made of all rows each time.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mom_pipeline.core.interactions import RowsName, rows_of_entries, weighted_rows
from mom_pipeline.core.moments.sums import column_sums
from mom_pipeline.core.moments.users import UserRows, Users
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Csr, Float64

# Columns that one thread sums at a time, and entries whose likelihoods it takes.
_COLUMNS, _ENTRIES = 16, 65_536
# More fit the users of the log better and later ones worse: MovieTweetings is worse from the second
# on, Online Retail and 30Music gain little after the fourth.
STEPS = 4


@dataclass(frozen=True)
class EmSums:
    """What a step adds up over users."""

    items: Array  # (D, K), sum_u P[y, k | u]
    groups: Float64  # (K,), sum_u P[k | u]
    log_likelihood: float  # of the rows, before the step
    users: int  # with any event

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.items + other.items,
            self.groups + other.groups,
            self.log_likelihood + other.log_likelihood,
            self.users + other.users,
        )


@dataclass(frozen=True)
class EmPass:
    """One step over some users. item_probs: (D, K), positive.  weights: (K,).

    "product": a user is of one component, P[k | u] pi_k prod_y O_yk^x_uy, and

        O_yk <- sum_u P[k | u] x_uy,   pi_k <- sum_u P[k | u],   each normalised

    "em": every event has its own, r_uyk = theta_uk O_yk / sum_h theta_uh O_yh, theta_u folded in
    from pi by a few steps with O fixed, and O_yk <- sum_u x_uy r_uyk, pi_k <- sum_u theta_uk.
    """

    item_probs: Array
    weights: Float64
    settings: Personalization
    rows: RowsName

    def __call__(self, users: UserRows) -> EmSums:
        X, O = weighted_rows(users.X, self.rows), self.item_probs
        P = memberships(X, O, self.weights, self.settings)
        taken = np.diff(X.indptr) > 0
        if self.settings.rule == "em":
            ratios, level = _ratios(X, P, O)
            items = O * _transposed_times(ratios, P)
        else:
            items, level = _transposed_times(X, P), self._of_classes(X)
        return EmSums(items, P[taken].sum(axis=0, dtype=np.float64), level, int(taken.sum()))

    def _of_classes(self, X: Csr) -> float:
        """Return sum_u log sum_k pi_k prod_y O_yk^x_uy."""
        log_O, log_pi = np.log(self.item_probs), np.log(np.maximum(self.weights, 1e-300))
        scores = (X.astype(log_O.dtype) @ log_O).astype(np.float64) + log_pi
        most = scores.max(axis=1)
        levels = most + np.log(np.exp(scores - most[:, None]).sum(axis=1))
        return float(levels[np.diff(X.indptr) > 0].sum())


@dataclass(frozen=True)
class Refined:
    """O, (D, K), and pi, (K,), after the steps; log_likelihoods: before each of them."""

    item_probs: Array
    weights: Float64
    log_likelihoods: tuple[float, ...]


def refine(
    users: Users,
    item_probs: Array,
    weights: Array,
    settings: Personalization,
    rows: RowsName,
    *,
    n_steps: int = STEPS,
) -> Refined:
    """Take steps of EM from O, (D, K), and pi, (K,). Components keep their numbers.

    O has its share of popularity at the first step, since a zero stays zero; with the rule "em",
    where few events tell a user's mixture, at every step.
    """
    item_events = users.add_up(_ItemEvents(rows))
    O, pi, levels = item_probs.astype(np.float32), np.asarray(weights, dtype=np.float64), []
    for step in range(n_steps):
        share = settings.smoothing if settings.rule == "em" or step == 0 else 0.0
        started = smoothed(O, item_events / item_events.sum(), share)
        sums = users.add_up(EmPass(started, pi, settings, rows))
        mass = sums.items.sum(axis=0, dtype=np.float64)
        O = np.where(mass > 0, sums.items / np.where(mass > 0, mass, 1.0), O).astype(np.float32)
        pi = sums.groups / sums.groups.sum()
        levels.append(sums.log_likelihood)
    return Refined(O, pi, tuple(levels))


@dataclass(frozen=True)
class _ItemEvents:
    """What the users have of each item, (D,)."""

    rows: RowsName

    def __call__(self, users: UserRows) -> Float64:
        X = weighted_rows(users.X, self.rows)
        return column_sums(X)


def _ratios(X: Csr, theta: Array, O: Array) -> tuple[Csr, float]:
    """Return x_uy / p_uy and sum x log p, p_uy = sum_k theta_uk O_yk: threads over the entries."""
    users, ratios = rows_of_entries(X), X.astype(O.dtype)

    def block(start: int) -> float:
        own = slice(start, start + _ENTRIES)
        p = np.einsum("ek,ek->e", theta[users[own]], O[X.indices[own]])
        p = np.maximum(p, np.finfo(p.dtype).tiny)
        ratios.data[own] /= p
        return float(X.data[own] @ np.log(p.astype(np.float64)))

    return ratios, float(np.sum(map_blocks(block, range(0, X.nnz, _ENTRIES))))


def _transposed_times(X: Csr, P: Array) -> Array:
    """Return X.T @ P, (D, K): threads over slabs of columns."""
    result = np.empty((X.shape[1], P.shape[1]), dtype=P.dtype)
    transposed = X.astype(P.dtype).T

    def slab(start: int) -> None:
        own = slice(start, start + _COLUMNS)
        result[:, own] = transposed @ np.ascontiguousarray(P[:, own])

    map_blocks(slab, range(0, P.shape[1], _COLUMNS))
    return result
