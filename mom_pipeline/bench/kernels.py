"""Speed of the two heavy kernels, as ratios to the machine's own rates in the same run."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from mom_pipeline.core.moments import Estimator, MomentSums, PairMoments, gram_product
from mom_pipeline.core.tensor import multiply_adds, triple_sums
from mom_pipeline.core.threads import available_cores
from mom_pipeline.core.types import Csr
from mom_pipeline.core.validation import as_interactions
from mom_pipeline.core.whitening import Whitening, whiten

Result = TypeVar("Result")

_GEMM_SIZE = 4096


def run_kernels(
    n_users: int = 1_000_000,
    n_items: int = 718_675,
    n_pairs: int = 5_670_000,
    n_components: int = 100,
    *,
    seed: int = 0,
    repeats: int = 3,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Measure on a random sparse matrix of the paper's largest size.

    Everything is timed after a first run, so that no figure pays for memory that the process
    touches for the first time; the best of `repeats` counts, for kernel and peer alike.
    """
    rng = np.random.default_rng(seed)
    X = random_interactions(n_users, n_items, n_pairs, rng)
    estimator = Estimator.of("balanced")
    M2 = PairMoments.of(X, MomentSums.of(X, estimator), estimator, dtype=np.float32)
    Q = rng.standard_normal((n_items, n_components), dtype=np.float32)
    progress(0.1)

    pair_seconds, _ = best_of(repeats, lambda: gram_product(M2.normalised, Q))
    whitening_seconds, whitening = best_of(
        2, lambda: whiten(M2, n_components, np.random.default_rng(seed))
    )
    progress(0.6)
    tensor_seconds, _ = best_of(repeats, lambda: _tensor(X, whitening, M2, estimator))
    executed = 2e-9 * multiply_adds(whitening.n_components) * n_users / tensor_seconds
    progress(0.9)
    A = rng.standard_normal((_GEMM_SIZE, _GEMM_SIZE), dtype=np.float32)
    gemm_seconds, _ = best_of(repeats, lambda: A @ A)
    gemm_rate = 2e-9 * _GEMM_SIZE**3 / gemm_seconds
    return {
        "n_users": n_users,
        "n_items": n_items,
        "n_pairs": int(X.nnz),
        "n_components": n_components,
        "seed": seed,
        "cores": available_cores(),
        "tensor_seconds": tensor_seconds,
        "tensor_gflops_executed": executed,
        "gemm_gflops": gemm_rate,
        "tensor_to_gemm": executed / gemm_rate,
        "sparse_pair_seconds": pair_seconds,
        "whitening_seconds": whitening_seconds,
        "whitening_to_pair": whitening_seconds / pair_seconds,
        "whitening_passes": whitening.passes,
        "whitening_residual": whitening.residual,
    }


def random_interactions(n_users: int, n_items: int, n_pairs: int, rng: np.random.Generator) -> Csr:
    """Return a binary matrix with about n_pairs entries at uniformly random places."""
    users = rng.integers(0, n_users, n_pairs)
    items = rng.integers(0, n_items, n_pairs)
    X = as_interactions(
        sparse.csr_array((np.ones(n_pairs), (users, items)), shape=(n_users, n_items))
    )
    X.data[:] = 1.0
    return X


def best_of(repeats: int, work: Callable[[], Result]) -> tuple[float, Result]:
    """Run once unmeasured, then `repeats` times; return the shortest time and a result."""
    result = work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def _tensor(X: Csr, whitening: Whitening, M2: PairMoments, estimator: Estimator) -> Any:
    basis = whitening.matrix * M2.item_scale[:, None].astype(np.float32)
    return triple_sums(X, basis, estimator)
