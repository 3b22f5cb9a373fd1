import numpy as np
import pytest

from mom_pipeline.core.algorithm.decomposition import (
    decompose_by_deflation,
    decompose_simultaneously,
    decompose_tensor,
    order_like,
)


def orthogonal_tensor(K, rng, noise=0.0):
    V = np.linalg.qr(rng.standard_normal((K, K)))[0]
    lambdas = np.sort(1 + 3 * rng.random(K))
    T = np.einsum("ik,jk,lk->ijl", V * lambdas, V, V)
    E = rng.standard_normal((K, K, K))
    E = sum(
        E.transpose(p) for p in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    )
    return T + noise * E, lambdas, V


@pytest.mark.parametrize("method", ["simultaneous", "deflation"])
@pytest.mark.parametrize("K", [1, 2, 12])
def test_exact_tensor_is_recovered(method, K, rng):
    T, lambdas, V = orthogonal_tensor(K, rng)
    found = decompose_tensor(T, rng, method=method)
    np.testing.assert_allclose(found.lambdas, lambdas, rtol=1e-9)
    np.testing.assert_allclose((found.vectors * V).sum(axis=0), 1.0, atol=1e-9)
    assert found.residual < 1e-7


def test_both_methods_agree_on_a_noisy_tensor(rng):
    T, _, _ = orthogonal_tensor(15, rng, noise=0.002)
    at_once = decompose_simultaneously(T, rng)
    one_by_one = decompose_by_deflation(T, rng)
    np.testing.assert_allclose(at_once.lambdas, one_by_one.lambdas, rtol=0.02)
    overlap = np.abs(at_once.vectors.T @ one_by_one.vectors).max(axis=0)
    assert overlap.min() > 0.999
    assert at_once.residual < 1.02 * one_by_one.residual


def test_warm_start_needs_fewer_sweeps_and_finds_the_same(rng):
    T, _, _ = orthogonal_tensor(20, rng, noise=0.001)
    cold = decompose_simultaneously(T, rng)
    warm = decompose_simultaneously(T, rng, start=cold.vectors)
    np.testing.assert_allclose(warm.lambdas, cold.lambdas, rtol=1e-6)
    assert warm.iterations < cold.iterations


def test_components_keep_their_numbers_when_there_are_fewer():
    O = np.random.default_rng(1).dirichlet(np.full(30, 0.1), size=6).T
    # Who had a number that still exists keeps it; the others fill the gaps.
    np.testing.assert_array_equal(order_like(O[:, [4, 3, 2]], O), [0, 1, 2])
    np.testing.assert_array_equal(order_like(O[:, [2, 1, 5]], O), [2, 1, 0])
