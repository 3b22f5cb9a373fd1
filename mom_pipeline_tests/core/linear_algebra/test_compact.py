"""What is stored in fewer bytes comes back."""

import numpy as np
import pytest

from mom_pipeline.core.linear_algebra.compact import from_half, packed, to_half, unpacked


@pytest.mark.parametrize("K", [1, 2, 7])
def test_a_symmetric_tensor_comes_back_to_the_last_digit(K, rng):
    y = rng.standard_normal((20, K))
    values = packed(np.einsum("na,nb,nc->abc", y, y, y))
    assert values.shape == (K * (K + 1) * (K + 2) // 6,)
    T = unpacked(values, K)
    np.testing.assert_array_equal(packed(T), values)
    np.testing.assert_allclose(T, np.einsum("na,nb,nc->abc", y, y, y), rtol=1e-12)
    for order in ((2, 0, 1), (1, 0, 2)):
        np.testing.assert_array_equal(T, T.transpose(order))


def test_small_rows_lose_no_more_than_large_ones(rng):
    A = rng.standard_normal((40, 30)).astype(np.float32)
    A *= 10.0 ** np.linspace(-12, 12, 40, dtype=np.float32)[:, None]
    A[7], A[8, 3:] = 0.0, 0.0
    rows, exponents = to_half(A)
    assert (rows.dtype, exponents.dtype) == (np.float16, np.int16)
    back = from_half(rows, exponents)
    assert back.dtype == np.float32
    error = np.abs(back - A).max(axis=1)
    assert (error <= 2**-11 * np.abs(A).max(axis=1)).all()
    assert error.max() > 0
    np.testing.assert_array_equal(back[A == 0], 0.0)
    np.testing.assert_array_equal(to_half(back)[0], rows)
