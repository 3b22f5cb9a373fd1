"""The library `implicit`: found when it is needed, fed as it wants, held to its own threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from scipy import sparse

from mom_pipeline.comparison.methods.options import MissingLibrary
from mom_pipeline.core.types import Csr


def missing(method: str, error: ImportError) -> MissingLibrary:
    """Return the error that says what is missing and what to install."""
    return MissingLibrary(
        f"{method} needs the library implicit, which cannot be imported here ({error}); "
        "install it with: pip install 'mom-pipeline[baselines]'"
    )


@contextmanager
def one_blas_thread_each() -> Iterator[None]:
    """Hold every BLAS of the process to one thread, as `implicit` asks for.

    Its own threads call BLAS for small matrices; the two kinds together are many times slower.
    Numpy and scipy bring a library each, so holding numpy's alone is not enough.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def as_user_items(X: Csr) -> sparse.csr_matrix:
    """Return a copy of the type, precision and order of positions that `implicit` expects."""
    matrix = sparse.csr_matrix(X, dtype=np.float32, copy=True)
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.sort_indices()
    return matrix
