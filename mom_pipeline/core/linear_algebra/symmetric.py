"""Symmetric tensors of third order without their repetitions: a sixth of the numbers."""

from functools import lru_cache

import numpy as np

from mom_pipeline.core.types import Array, Float64


def packed(T: Float64) -> Float64:
    """Return the entries T_abc with a <= b <= c, (K (K+1) (K+2) / 6,), of a symmetric T."""
    return T[_rising(len(T))]


def unpacked(values: Float64, K: int) -> Float64:
    """Return the symmetric tensor, (K, K, K), whose entries `packed` gave."""
    return values[_positions(K)]


@lru_cache(maxsize=2)
def _positions(K: int) -> Array:
    """Return where `packed` has put each entry, (K, K, K)."""
    a, b, c = _rising(K)
    positions = np.empty((K, K, K), dtype=np.int32)
    for one, two, three in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
        positions[one, two, three] = np.arange(len(a))
    return positions


@lru_cache(maxsize=2)
def _rising(K: int) -> tuple[Array, Array, Array]:
    """Return all a <= b <= c below K, in order."""
    a, b = np.triu_indices(K)
    times = K - b
    starts = np.repeat(b - np.concatenate([[0], np.cumsum(times)[:-1]]), times)
    c = np.arange(times.sum()) + starts
    return np.repeat(a, times), np.repeat(b, times), c
