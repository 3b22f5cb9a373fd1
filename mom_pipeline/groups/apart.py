"""What sets groups of people apart, and their places on a map."""

import numpy as np

from mom_pipeline.core.types import Array, Float64

# As many takers who are as usual count beside those of a word.
_PRIOR = 5.0
_STEPS, _PULL, _GAP, _SMALLEST = 400, 0.02, 1.02, 0.35


def set_apart(O: Array, popularity: Array) -> Float64:
    """How much each row sets a group apart from everybody, or another: p log(p / p of theirs)."""
    p, everybody = O.astype(np.float64), popularity[:, None].astype(np.float64)
    ratio = np.divide(p, everybody, out=np.ones_like(p), where=(p > 0) & (everybody > 0))
    return np.asarray(p * np.log(ratio))


def expected_shares(counts: Array, usual: Array) -> Float64:
    """P[group | taker] of an item before anybody took it: (K,), from those of its words.

    The mean of the logarithms of how much more often than usual people of a group take what has a
    word. counts: (words, K) takers by group.  usual: (K,) shares of all people.
    """
    usual = np.maximum(usual, 1e-9)
    shares = (counts + _PRIOR * usual) / (counts.sum(axis=1, keepdims=True) + _PRIOR)
    expected = usual * np.exp(np.log(shares / usual).mean(axis=0))
    return np.asarray(expected / expected.sum())


def bubbles(O: Array, sizes: Array) -> Float64:
    """(K, 3): a place and a radius for each group in a square of side 1; none covers another.

    Like groups are near each other: their ranks along the two main directions of sqrt(O), from
    where the circles are pushed apart and drawn together.
    """
    root, K = np.sqrt(O.astype(np.float64)), len(sizes)
    _, vectors = np.linalg.eigh(root.T @ root)
    rank = vectors[:, ::-1][:, 1:3].argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    places = np.zeros((K, 2))
    places[:, : rank.shape[1]] = 2 * (rank + 0.5) / K - 1
    places += 1e-3 * np.stack([np.cos(np.arange(K) * 2.4), np.sin(np.arange(K) * 2.4)], axis=1)
    radius = np.sqrt(np.maximum(sizes, (_SMALLEST**2) * sizes.max(initial=0.0)))
    radius /= max(float(np.sqrt((radius**2).sum())), 1e-12)
    wanted = _GAP * (radius[:, None] + radius)
    np.fill_diagonal(wanted, 0)
    for step in range(2 * _STEPS):
        apart = places[:, None] - places
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        push = np.maximum(wanted - distance, 0) / distance / 2
        if step > _STEPS and not push.any():
            break
        places += (apart * push[..., None]).sum(axis=1) * 0.6
        if step < _STEPS:
            places *= 1 - _PULL
    low, high = (places - radius[:, None]).min(axis=0), (places + radius[:, None]).max(axis=0)
    side = float((high - low).max())
    centred = (places - (low + high) / 2) / side + 0.5
    return np.column_stack([centred, radius / side])
