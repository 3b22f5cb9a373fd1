"""Rows in half precision: half the bytes on disk, four digits of each row's largest entry.

Each row is divided by a power of two, so that small rows lose no more than large ones.
"""

import numpy as np

from mom_pipeline.core.types import Array


def to_half(A: Array) -> tuple[Array, Array]:
    """Return the rows in half precision, and the exponents that they were divided by."""
    exponents = np.frexp(np.abs(A).max(axis=1, initial=0.0))[1]
    return np.ldexp(A, -exponents[:, None]).astype(np.float16), exponents.astype(np.int16)


def from_half(rows: Array, exponents: Array) -> Array:
    """Return the rows that `to_half` gave, in single precision."""
    return np.asarray(np.ldexp(rows.astype(np.float32), exponents[:, None].astype(np.int32)))


def rounded(A: Array) -> Array:
    """Return the rows as they come back from half precision."""
    return from_half(*to_half(A))
