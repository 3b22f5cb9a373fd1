"""Two halves of the users, by position: the same forever, and even."""

import numpy as np

from mom_pipeline.core.types import Array

# 2^64 / golden ratio: its multiples are spread evenly, so the halves are equal within one user
# or so, and neighbours, who came together, are parted.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_TOP_BIT = np.uint64(63)


def in_first_half(users: Array) -> Array:
    """Tell for positions of users whether they belong to the first half."""
    return (spread(users) >> _TOP_BIT).astype(bool)


def spread(users: Array) -> Array:
    """Return a 64-bit number per position, evenly spread also among neighbours."""
    return np.asarray(users.astype(np.uint64) * _GOLDEN)
