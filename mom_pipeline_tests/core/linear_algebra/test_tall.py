"""Products in blocks are those of plain numpy, also where the rows fill several blocks."""

import numpy as np
import pytest

from mom_pipeline.core.linear_algebra.tall import (
    cross,
    multiply,
    orthonormal_into,
    subtract_product,
)

ROWS = 20_001


@pytest.fixture
def tall(rng):
    """Columns of a wider array, as a span has them."""
    return rng.standard_normal((ROWS, 9))[:, 1:6]


def test_products_are_those_of_numpy_also_when_written_over_an_operand(tall, rng):
    G, C, F = (rng.standard_normal(shape) for shape in ((ROWS, 3), (5, 3), (5, 2)))
    np.testing.assert_allclose(cross(tall, G), tall.T @ G, rtol=1e-9)
    rest = G - tall @ C
    gram = subtract_product(G, tall, C)
    np.testing.assert_allclose(G, rest, atol=1e-12)
    np.testing.assert_allclose(gram, rest.T @ rest, rtol=1e-10)
    expected, last = tall @ F, tall[:, 2:].copy()
    result = multiply(tall, F, out=tall)
    np.testing.assert_allclose(result, expected, atol=1e-12)
    assert np.shares_memory(result, tall)
    np.testing.assert_array_equal(tall[:, 2:], last)


def test_orthonormal_drops_dependent_columns(rng):
    Q = rng.standard_normal((50, 6))
    Q[:, 5] = Q[:, 0] + Q[:, 1]
    Q[:, 4] = 0
    V = orthonormal_into(np.empty_like(Q), Q.copy(), Q.T @ Q)
    assert V.shape == (50, 4)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)
    leftover = Q - V @ (V.T @ Q)
    assert np.abs(leftover).max() < 1e-9


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_orthonormal_keeps_the_longest_directions_that_fit(rng, dtype, tolerance):
    axes = np.linalg.qr(rng.standard_normal((ROWS, 4)))[0]
    Q = (axes * [1.0, 100.0, 0.01, 10.0]).astype(dtype)
    room = np.empty((ROWS, 5), dtype=dtype)
    V = orthonormal_into(room, Q, cross(Q, Q), at_most=2)
    assert np.shares_memory(V, room)
    np.testing.assert_allclose(V.T @ V, np.eye(2), atol=10 * tolerance)
    np.testing.assert_allclose(V @ (V.T @ axes[:, [1, 3]]), axes[:, [1, 3]], atol=10 * tolerance)
