"""Benchmark of the tensor kernel and the whitening, as ratios to GEMM and a sparse product."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mom_pipeline.bench.data import random_interactions
from mom_pipeline.bench.measure import (
    Progress,
    Seconds,
    best_in_turns,
    described,
    no_progress,
    timed,
)
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.pairs import PairMoments, gram_product
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.triples import multiply_adds, span_sums

_GEMM_SIZE = 4096
# Items whose rows of W stay in cache: the kernel itself, without waiting for memory.
_CACHED_ITEMS = 4096


def run_kernels(
    n_users: int = 1_000_000,
    n_items: int = 718_675,
    n_pairs: int = 5_670_000,
    n_components: int = 100,
    *,
    seed: int = 0,
    repeats: int = 3,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure on a random sparse matrix of the paper's largest size.

    Kernels and peers are taken in turns; the best of `repeats` counts.
    """
    rng = np.random.default_rng(seed)
    X = random_interactions(n_users, n_items, n_pairs, rng)
    estimator = Estimator.from_name("balanced")
    M2 = PairMoments.from_rows(X, MomentSums.from_rows(X, estimator), estimator, dtype=np.float32)
    Q = rng.standard_normal((n_items, n_components), dtype=np.float32)
    pairs = top_eigenpairs(M2, n_components, np.random.default_rng(seed))
    basis = pairs.vectors[:, :n_components] * M2.item_scale[:, None].astype(np.float32)
    few_items = random_interactions(n_users // 4, _CACHED_ITEMS, n_pairs // 4, rng)
    few_rows = rng.standard_normal((_CACHED_ITEMS, n_components), dtype=np.float32)
    A = rng.standard_normal((_GEMM_SIZE, _GEMM_SIZE), dtype=np.float32)
    works: dict[str, Callable[[], Any]] = {
        "whitening": lambda: top_eigenpairs(M2, n_components, np.random.default_rng(seed)),
        "pair": lambda: gram_product(M2.normalised, Q),
        "kernel": lambda: span_sums(few_items, few_rows, estimator),
        "tensor": lambda: span_sums(X, basis, estimator),
        "gemm": lambda: A @ A,
    }
    timings = {name: partial(_seconds, work) for name, work in works.items()}
    tell = partial(progress, "kernels")
    best = best_in_turns(timings, repeats, warm_up=True, progress=tell)
    return {
        **described(X, n_components, seed),
        **_rates(best, n_components, n_users, few_items.shape[0]),
        "sparse_pair_seconds": best["pair"].wall,
        "whitening_seconds": best["whitening"].wall,
        "whitening_to_pair": best["whitening"].wall / best["pair"].wall,
        "whitening_passes": pairs.passes,
        "whitening_residual": pairs.residual,
    }


def _seconds(work: Callable[[], Any]) -> Seconds:
    return timed(work)[0]


def _rates(
    best: Mapping[str, Seconds], n_components: int, n_users: int, n_kernel_users: int
) -> dict[str, float]:
    """Executed multiply-adds of the tensor kernel and of a whole pass, against a GEMM's."""
    per_user = 2e-9 * multiply_adds(n_components)
    kernel_rate = per_user * n_kernel_users / best["kernel"].wall
    pass_rate = per_user * n_users / best["tensor"].wall
    gemm_rate = 2e-9 * _GEMM_SIZE**3 / best["gemm"].wall
    return {
        "gemm_gflops": gemm_rate,
        "tensor_kernel_gflops_executed": kernel_rate,
        "tensor_kernel_to_gemm": kernel_rate / gemm_rate,
        "tensor_pass_seconds": best["tensor"].wall,
        "tensor_pass_to_gemm": pass_rate / gemm_rate,
    }
