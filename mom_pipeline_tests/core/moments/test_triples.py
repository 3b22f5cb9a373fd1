import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.moments import triples
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.triples import span_sums
from mom_pipeline_tests.core.conftest import distinct_draws


def brute_force(X, basis, estimator, order):
    """Sum of a_u x⊗x or a_u x⊗x⊗x through the basis, building D^2 or D^3 for every user."""
    a, _ = estimator.term_weights(X.sum(axis=1), order)
    total = np.zeros((X.shape[1],) * order)
    for row, weight in zip(X.toarray(), a, strict=True):
        power = np.einsum("i,j,k" if order == 3 else "i,j", *[row] * order)
        total += weight * (distinct_draws(row, order) if estimator.distinct else power)
    for _ in range(order):
        total = np.tensordot(total, basis, (0, 0))
    return total


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
@pytest.mark.parametrize("binary", [False, True])
def test_the_kernel_equals_brute_force(few_rows, name, binary, rng):
    X = sparse.csr_array((few_rows > 0).astype(float)) if binary else few_rows
    estimator, basis = Estimator.from_name(name), rng.standard_normal((5, 4))
    for order, found in zip((2, 3), span_sums(X, basis, estimator), strict=True):
        expected = brute_force(X, basis, estimator, order)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)
        assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("K", [1, 7, 30])
def test_blocks_and_threads_do_not_change_the_sum(counts, K, rng, monkeypatch):
    basis = rng.standard_normal((counts.shape[1], K))
    estimator = Estimator.from_name("unbiased")
    whole = span_sums(counts, basis, estimator)[1]
    monkeypatch.setattr(triples, "_USERS_PER_BLOCK", 97)
    monkeypatch.setattr(triples, "_STACKED_ROWS", 11)
    np.testing.assert_allclose(span_sums(counts, basis, estimator)[1], whole, rtol=1e-9)
