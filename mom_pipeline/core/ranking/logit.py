"""Conditional logit: which of the candidates a user takes (McFadden 1974).

    P[u takes y] = exp(s_uy) / sum_c exp(s_uc),     s_uy = (a + l_u b) . z_uy

z_uy: features of user and item.  l_u: the standardised log of the length of u's history, so that
a newcomer and a regular weigh them differently.  The coefficients w = (a, b) maximise

    1/n sum_u mean_(y taken by u) log P[u takes y]  -  c/n |w - w_0|^2

over n users: one concave problem, solved by Newton's method.  Without users it is w_0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

# Newton's method stops where no entry of the gradient is larger; steps until then.
GRADIENT_TOLERANCE = 1e-9
_MOST_STEPS = 50
# A penalty of 0 and features that say the same: the least curvature in any direction.
_LEAST_CURVATURE = 1e-9


@dataclass(frozen=True)
class Choices:
    """What some users could take, and did."""

    z: Array  # (users, candidates, features), single precision; short rows are repeated
    taken: Array  # (users, candidates) share of each in what the user took
    offered: Array  # (users, candidates) of bool, False where there is no candidate
    lengths: Float64  # (users,) standardised log of the length of each history

    def moments(self, w: Float64) -> tuple[float, Float64, Float64]:
        """Return the sums over users of the log-likelihood, its gradient and minus its Hessian."""
        z, (a, b) = self.z.astype(np.float64), w.reshape(2, -1)
        s = np.matmul(z, (a + self.lengths[:, None] * b)[:, :, None])[:, :, 0]
        s[~self.offered] = -np.inf
        s -= s.max(axis=1, keepdims=True)
        p = np.exp(s)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        s[~self.offered] = 0.0
        value = float((self.taken * (s - np.log(total))).sum())
        mean = np.matmul(p[:, None, :], z)[:, 0]
        gradient = np.matmul(self.taken[:, None, :].astype(np.float64), z)[:, 0] - mean
        second = np.matmul((z * p[:, :, None]).transpose(0, 2, 1), z)
        second -= mean[:, :, None] * mean[:, None, :]
        powers = np.stack([np.ones_like(self.lengths), self.lengths], axis=1)
        g = np.einsum("ui,uf->if", powers, gradient).reshape(-1)
        pairs = powers[:, :, None] * powers[:, None, :]
        n = len(w)
        H = np.einsum("uij,ufg->ifjg", pairs, second).reshape(n, n)
        return value, g, H


def maximise(
    choices: Sequence[Choices], start: Float64, penalty: float, *, free: Array | None = None
) -> Float64:
    """Return w, (2 features,), of the largest likelihood, drawn to `start`; some may be fixed."""
    if penalty < 0:
        raise InvalidSetting(f"the penalty of the ranking must be 0 or more, found {penalty}")
    free = np.ones(len(start), dtype=bool) if free is None else free
    n_users = sum(len(own.taken) for own in choices)
    if not n_users or not free.any():
        return start.copy()
    strength = penalty / n_users

    def moments(w: Float64) -> tuple[float, Float64, Float64]:
        parts = map_blocks(lambda own: own.moments(w), list(choices))
        values, gradients, curvatures = zip(*parts, strict=True)
        away = w - start
        value = sum(values) / n_users - strength * float(away @ away)
        g = np.sum(gradients, axis=0) / n_users - 2 * strength * away
        H = np.sum(curvatures, axis=0)[np.ix_(free, free)] / n_users
        H[np.diag_indices_from(H)] += 2 * strength + _LEAST_CURVATURE
        return value, g[free], H

    w = start.copy()
    value, g, H = moments(w)
    for _ in range(_MOST_STEPS):
        if np.abs(g).max() <= GRADIENT_TOLERANCE:
            break
        step, length = np.linalg.solve(H, g), 1.0
        while True:
            tried = w.copy()
            tried[free] += length * step
            moved = moments(tried)
            if moved[0] >= value + 1e-4 * length * float(g @ step) or length < 1e-6:
                break
            length /= 2
        if moved[0] < value:  # rounding: no step is a gain any more
            break
        w, (value, g, H) = tried, moved
    return w
