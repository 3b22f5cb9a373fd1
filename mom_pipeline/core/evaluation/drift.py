"""How much components and popularities moved between two days."""

import numpy as np

from mom_pipeline.core.moments.sums import padded
from mom_pipeline.core.types import Array, Float64


def drift(item_probs: Array, earlier: Array) -> Float64:
    """Return the total variation distance of every component from the earlier one, (K,).

    1/2 sum_y |O_yk - O'_yk|; a component without a counterpart has drifted by 1.
    """
    K, D = item_probs.shape[1], max(len(item_probs), len(earlier))
    now, before = padded(item_probs, D), padded(earlier, D)
    shared = min(K, before.shape[1])
    moved = np.ones(K)
    moved[:shared] = np.abs(now[:, :shared] - before[:, :shared]).sum(axis=0) / 2
    return moved


def popularity_drift(item_events: Array, earlier: Array) -> float:
    """Return the total variation distance between the popularities of two days."""

    def shares(events: Array) -> Array:
        return np.asarray(events / max(events.sum(), np.finfo(np.float64).tiny))[:, None]

    return float(drift(shares(item_events), shares(earlier))[0])
