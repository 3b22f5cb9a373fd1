"""The inverse in place is the inverse, whichever way it is computed."""

import numpy as np
import pytest

from mom_pipeline.core.linear_algebra import inverse as positive_inverse
from mom_pipeline.core.linear_algebra.inverse import invert_in_place


@pytest.fixture(params=["lapack", "sweeping"])
def way(request, monkeypatch):
    if request.param == "sweeping":
        monkeypatch.setattr(positive_inverse, "_LAPACK_ROWS", 0)
    return request.param


@pytest.mark.parametrize("block", [7, 50, 64, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_numpys_inverse(way, block, dtype, monkeypatch, rng):
    monkeypatch.setattr(positive_inverse, "_BLOCK", block)
    Z = rng.standard_normal((150, 60))
    A = (Z @ Z.T + np.diag(rng.uniform(1, 5, 150))).astype(dtype)
    inverse, place = A.copy(), A
    assert invert_in_place(A)
    assert A is place
    assert A.dtype == dtype
    tolerance = 1e-11 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(A, np.linalg.inv(inverse.astype(np.float64)), atol=tolerance)
    np.testing.assert_array_equal(A, A.T)


@pytest.mark.parametrize("place", [0, 70, 149])
def test_a_matrix_that_is_not_positive_definite_is_told(way, place, monkeypatch, rng):
    monkeypatch.setattr(positive_inverse, "_BLOCK", 64)
    A = np.eye(150)
    A[place, place] = -1.0
    assert not invert_in_place(A)
