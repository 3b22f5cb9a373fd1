import numpy as np
import pytest

from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs


class WrittenOut:
    """A symmetric matrix, (D, D), as an operator."""

    def __init__(self, matrix):
        self.explicit, self.n_items, self.dtype = matrix, len(matrix), matrix.dtype

    def apply(self, Q):
        return self.explicit @ Q


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_eigenpairs_of_a_written_out_matrix_come_from_lapack(rng, dtype):
    A = rng.standard_normal((700, 900)) * np.linspace(3, 0.1, 900)
    M2 = WrittenOut((A @ A.T).astype(dtype))
    pairs = top_eigenpairs(M2, 200, rng)
    assert pairs.passes == 1
    expected = np.linalg.eigvalsh(A @ A.T)[::-1][: len(pairs.values)]
    np.testing.assert_allclose(pairs.values, expected, rtol=1e-4)
    residual = M2.apply(pairs.vectors) - pairs.vectors * pairs.values
    assert np.abs(residual).max() < 1e-4 * expected[0]
    assert (pairs.vectors.sum(axis=0) >= 0).all()
    few = top_eigenpairs(M2, 5, rng, tol=1e-9, max_passes=60)
    assert few.passes > 1
    np.testing.assert_allclose(few.values[:5], expected[:5], rtol=1e-3)
