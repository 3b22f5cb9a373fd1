import numpy as np
import pytest

from mom_pipeline.bench import kernels
from mom_pipeline.bench.data import random_interactions
from mom_pipeline.core.moments.triples import multiply_adds


def test_ratios_are_those_of_the_figures(monkeypatch):
    """Small sizes: what it reports, never how fast it was."""
    monkeypatch.setattr(kernels, "_GEMM_SIZE", 256)
    result = kernels.run_kernels(3_000, 2_000, 20_000, 10, repeats=1)
    executed = 2e-9 * multiply_adds(10) * 3_000
    gemm = result["gemm_gflops"]
    expected = {
        "tensor_kernel_to_gemm": result["tensor_kernel_gflops_executed"] / gemm,
        "tensor_pass_to_gemm": executed / result["tensor_pass_seconds"] / gemm,
        "whitening_to_pair": result["whitening_seconds"] / result["sparse_pair_seconds"],
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert 1 <= result["whitening_passes"] <= 10
    assert (result["n_users"], result["n_items"], result["n_components"]) == (3_000, 2_000, 10)


def test_random_interactions_are_binary():
    X = random_interactions(50, 20, 300, np.random.default_rng(0))
    assert set(X.data) == {1.0}
    assert X.nnz <= 300


def test_counted_multiply_adds_lie_between_the_useful_and_the_full_product():
    for K in (1, 10, 100):
        assert K * (K + 1) * (K + 2) / 6 <= multiply_adds(K) <= K**3
