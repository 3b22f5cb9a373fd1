"""How large a matrix may be that is written out in full where its products are quicker so.

Either way gives the same numbers up to rounding. The one that is expected to be quicker is taken,
within these bytes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_DEFAULT = 2**28
_allowed: ContextVar[int] = ContextVar("bytes of a matrix that is written out", default=_DEFAULT)


@contextmanager
def allowing_dense(n_bytes: int) -> Iterator[None]:
    """Have the work inside the block write out no matrix of more than some bytes."""
    token = _allowed.set(n_bytes)
    try:
        yield
    finally:
        _allowed.reset(token)


def fits_dense(n_bytes: int) -> bool:
    """Return whether a matrix of so many bytes may be written out."""
    return n_bytes <= _allowed.get()
