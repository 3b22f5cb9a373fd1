"""The library `implicit`: found when it is needed, fed as it wants, held to its own threads."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from mom_pipeline.baselines.options import MissingLibrary
from mom_pipeline.core.types import Csr


def load(module: str, method: str) -> Any:
    """Import a module of `implicit`, or raise MissingLibrary with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibrary(
            f"{method} needs the library implicit, which cannot be imported here ({error}); "
            "install it with: pip install 'mom-pipeline[baselines]'"
        ) from error


@contextmanager
def one_blas_thread_each() -> Iterator[None]:
    """Hold every BLAS of the process to one thread, as `implicit` asks for.

    Its own threads call BLAS for small matrices; the two kinds together are many times slower.
    Numpy and scipy bring a library each, so holding numpy's alone is not enough.
    """
    threadpoolctl = load("threadpoolctl", "implicit")
    with threadpoolctl.threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="OpenBLAS is configured")
        yield


def as_user_items(X: Csr) -> sparse.csr_matrix:
    """Return the matrix in the type, precision and order of positions that `implicit` expects."""
    matrix = sparse.csr_matrix(X, dtype=np.float32)
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    matrix.sort_indices()
    return matrix
