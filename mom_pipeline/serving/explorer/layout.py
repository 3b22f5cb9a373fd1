"""Where components and items stand on the map.

Components stand on a circle, like ones beside each other. An item stands at the mean of the
places of its components,

    sum_k P[k | item] c_k,   P[k | item] = pi_k O[item, k] / sum_l pi_l O[item, l]

and is then moved just so far that no circle covers another one.
"""

import numpy as np

from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array, Float64

_SMALLEST, _LARGEST = 0.010, 0.055
_STEPS, _GAP = 80, 0.004
_POPULAR, _OF_COMPONENTS, _AT_LEAST = 160, 160, 2


def shown_items(O: Array, popularity: Array) -> Array:
    """The items worth a circle: popular ones, and the most probable ones of every component.

    An item that no component shows has no place.
    """
    popular = top_n(popularity[None], min(_POPULAR, len(popularity)))[0][0]
    n = min(max(_OF_COMPONENTS // O.shape[1], _AT_LEAST), len(O))
    candidates = np.unique(np.concatenate([popular, top_n(O.T, n)[0].ravel()]))
    return candidates[(O[candidates] > 0).any(axis=1)]


def component_places(O: Array) -> Float64:
    """(K, 2): on a circle, each beside the one that it is most like. O: (D, K)."""
    root = np.sqrt(O)
    likeness = root.T @ root
    order, left = [0], set(range(1, O.shape[1]))
    while left:
        nearest = max(left, key=lambda k: (likeness[order[-1], k], -k))
        order.append(nearest)
        left.remove(nearest)
    angles = np.empty(len(order))
    angles[order] = 2 * np.pi * np.arange(len(order)) / len(order)
    return np.stack([np.sin(angles), -np.cos(angles)], axis=1)


def shares_of_components(O: Array, pi: Array) -> Float64:
    """P[component | item], (n, K), of items that some component shows."""
    joint: Float64 = O * pi
    return joint / joint.sum(axis=1, keepdims=True)


def radii(popularity: Array) -> Float64:
    """The radius of each circle: its area grows with the popularity."""
    most = max(float(popularity.max(initial=0.0)), np.finfo(np.float64).tiny)
    return _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(popularity / most)


def moved_apart(places: Array, radius: Array) -> Float64:
    """(n, 2): circles that covered each other, moved apart; the same every time."""
    n = len(places)
    turns = np.arange(n) * 2.399963  # the golden angle: equal places part in all directions
    now = places + 1e-4 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    wanted = radius[:, None] + radius + _GAP
    np.fill_diagonal(wanted, 0)
    for _ in range(_STEPS):
        apart = now[:, None] - now
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        push = np.maximum(wanted - distance, 0) / distance / 2
        if not push.any():
            break
        now += (apart * push[..., None]).sum(axis=1) * 0.5
    return now
