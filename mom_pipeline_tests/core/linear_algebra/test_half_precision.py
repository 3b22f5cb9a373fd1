"""Rows in half precision keep four digits, whatever their size."""

import numpy as np

from mom_pipeline.core.linear_algebra.half_precision import from_half, to_half


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
