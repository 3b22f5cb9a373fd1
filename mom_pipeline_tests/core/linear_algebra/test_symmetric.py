"""Symmetric tensors are stored without their repetitions."""

import numpy as np
import pytest

from mom_pipeline.core.linear_algebra.symmetric import packed, unpacked


@pytest.mark.parametrize("K", [1, 2, 7])
def test_a_symmetric_tensor_comes_back_to_the_last_digit(K):
    y = np.random.default_rng(0).standard_normal((20, K))
    T = np.einsum("na,nb,nc->abc", y, y, y)
    T = sum(np.transpose(T, p) for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2))) / 3
    T = unpacked(packed(T), K)  # exactly symmetric from here on
    values = packed(T)
    assert values.shape == (K * (K + 1) * (K + 2) // 6,)
    np.testing.assert_array_equal(unpacked(values, K), T)
    np.testing.assert_array_equal(T, np.transpose(T, (2, 0, 1)))
    np.testing.assert_array_equal(T, np.transpose(T, (1, 0, 2)))
