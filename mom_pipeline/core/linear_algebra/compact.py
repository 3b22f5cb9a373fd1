"""Arrays in fewer bytes: symmetric tensors without repetitions, rows in half precision."""

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


def to_half(A: Array) -> tuple[Array, Array]:
    """Rows in half precision, and their powers of two: four digits of the largest entry of each."""
    exponents = np.frexp(np.abs(A).max(axis=1, initial=0.0))[1]
    return np.ldexp(A, -exponents[:, None]).astype(np.float16), exponents.astype(np.int16)


def from_half(rows: Array, exponents: Array) -> Array:
    """Return the rows that `to_half` gave, in single precision."""
    return np.asarray(np.ldexp(rows.astype(np.float32), exponents[:, None].astype(np.int32)))


def rounded(A: Array) -> Array:
    """Return the rows as they come back from half precision."""
    return from_half(*to_half(A))
