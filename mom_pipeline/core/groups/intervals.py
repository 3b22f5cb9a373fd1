"""How sure components are: jackknife over hash groups of users, and what agrees by chance."""

from dataclasses import dataclass

import numpy as np

from mom_pipeline.core.algorithm.decomposition import (
    decompose_tensor,
    match_columns,
    order_like,
    unit_columns,
)
from mom_pipeline.core.algorithm.recovery import component_weights
from mom_pipeline.core.algorithm.whitening import whiten, whitened_tensor
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.groups.hashed import N_GROUPS, HashedSums
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.threads import map_blocks
from mom_pipeline.core.types import Array, Float64

_CHANCE_DRAWS = 20


@dataclass(frozen=True)
class StandardErrors:
    """Of the spectral estimate."""

    weights: Float64  # of pi, (K,)
    items: Array  # (M,) positions
    item_probs: Float64  # of O at these items, (M, K), before negative entries are removed


def standard_errors(hashed: HashedSums, components: Float64) -> StandardErrors:
    """Leave out one hash group of users at a time (delete-a-group jackknife).

        se^2 = (G - 1) / G sum_g (estimate without g - their mean)^2

    components: (K', K) those of everyone in the coordinates of the basis, from which each
    decomposition starts. Groups are subtracted from the sums; no row is read.
    """
    everyone = hashed.of(np.arange(N_GROUPS))
    item_pairs = hashed.item_pairs.sum(axis=0)

    def without(group: int) -> tuple[Float64, Float64]:
        return _estimates(
            everyone - hashed.of(np.array([group])),
            item_pairs - hashed.item_pairs[group],
            components,
        )

    weights, item_probs = zip(*map_blocks(without, range(N_GROUPS)), strict=True)
    return StandardErrors(_jackknifed(weights), hashed.items, _jackknifed(item_probs))


def _estimates(
    sums: AnchoredSums, item_pairs: Float64, components: Float64
) -> tuple[Float64, Float64]:
    """Return pi, (K,), and O at the items of the hash groups, (M, K); NaN for what is not found."""
    whitening = whiten(sums, components.shape[1], dtype=np.dtype(np.float64))
    found = decompose_tensor(
        whitened_tensor(sums, whitening),
        np.random.default_rng(0),
        start=whitening.factors.T @ components,
    )
    found = found.ordered(order_like(whitening.inverse @ found.vectors, components))
    mu = item_pairs @ (whitening.factors @ found.vectors)
    K = components.shape[1]
    weights, O = np.full(K, np.nan), np.full((len(mu) - 1, K), np.nan)
    kept = whitening.n_components
    weights[:kept], O[:, :kept] = component_weights(found.lambdas)[0], mu[:-1] / mu[-1]
    return weights, O


def _jackknifed(estimates: tuple[Float64, ...]) -> Float64:
    values = np.stack(estimates)
    return np.asarray(np.sqrt((N_GROUPS - 1) * values.var(axis=0)))


def chance_agreement(sums: AnchoredSums, components: Float64, seed: int) -> float:
    """Return the best agreement of any component in 20 pairs of halves with nothing in common.

    Their second moments are those of the two halves, and their components E diag(s)^(1/2) Q with
    random rotations Q: one in 20 sets of users without any group has one that agrees better.
    sums: with those of a half.  components: (K', K) of everyone, which the halves are matched to.
    """
    if sums.half is None:
        raise InvalidInteractions("these sums were made without telling the halves apart")
    K, rng = components.shape[1], np.random.default_rng(seed)
    halves = sums.half, sums - sums.half
    axes = [whiten(half, K, dtype=np.dtype(np.float64)).inverse for half in halves]
    best = 0.0
    for _ in range(_CHANCE_DRAWS):
        one, two = (_matched(A @ _rotation(A.shape[1], rng), components) for A in axes)
        best = max(best, float((one * two).sum(axis=0).max()))
    return best


def _matched(found: Float64, components: Float64) -> Float64:
    """Return unit columns of what was found, each with the component it is nearest to."""
    ours, theirs = match_columns(found, components)
    matched = np.zeros_like(components)
    matched[:, theirs] = unit_columns(found[:, ours])
    return matched


def _rotation(K: int, rng: np.random.Generator) -> Float64:
    Q, R = np.linalg.qr(rng.standard_normal((K, K)))
    return np.asarray(Q * np.sign(np.diag(R)))


def shown_groups(agreement: Float64, chance: float, supported: int) -> Array:
    """Return which components are shown as groups, (K,) of bool.

    Those whose halves agree better than by chance, and of these no more than the users support,
    the best first: a basis of more columns than that has directions in which noise agrees.
    """
    ranked = np.argsort(-agreement, kind="stable")[:supported]
    shown = np.zeros(len(agreement), dtype=bool)
    shown[ranked] = agreement[ranked] > chance
    return shown
