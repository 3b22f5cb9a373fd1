"""Rows in half precision keep four digits, whatever their size."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("bits", [1, 4, 8, 11])
def test_fewer_bits_round_each_entry_to_the_nearest(rng, bits):
    signs = rng.choice([-1.0, 1.0], (40, 30))
    A = (signs * 10.0 ** rng.uniform(-3, 0, (40, 30))).astype(np.float32)
    rows, exponents = to_half(A, bits)
    assert not (rows.view(np.uint16) % 2 ** (11 - bits)).any()
    np.testing.assert_allclose(from_half(rows, exponents), A, rtol=2.0**-bits + 2.0**-11)


def test_no_rows_and_no_columns():
    for shape in ((0, 4), (3, 0)):
        assert from_half(*to_half(np.empty(shape, dtype=np.float32))).shape == shape
