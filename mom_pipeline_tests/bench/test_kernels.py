import numpy as np

from mom_pipeline.bench.kernels import run_kernels
from mom_pipeline.bench.matrices import random_interactions
from mom_pipeline.core.moments.triples import multiply_adds


def test_every_figure_is_a_positive_number():
    """Small sizes: that it runs and what it reports, never how fast it was."""
    result = run_kernels(3_000, 2_000, 20_000, 10, repeats=1)
    for key in ("tensor_kernel_to_gemm", "tensor_pass_to_gemm", "whitening_to_pair", "gemm_gflops"):
        assert result[key] > 0
    assert result["whitening_passes"] >= 1


def test_random_interactions_are_binary():
    X = random_interactions(50, 20, 300, np.random.default_rng(0))
    assert set(X.data) == {1.0}
    assert X.nnz <= 300


def test_counted_multiply_adds_lie_between_the_useful_and_the_full_product():
    for K in (1, 10, 100):
        assert K * (K + 1) * (K + 2) / 6 <= multiply_adds(K) <= K**3
