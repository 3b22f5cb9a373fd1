import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.moments import triples
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.triples import span_sums
from mom_pipeline.core.threads import using_cores
from mom_pipeline_tests.core.conftest import distinct_pairs, distinct_triples


def triple_sums(X, basis, estimator):
    return span_sums(X, basis, estimator)[1]


def brute_force(X, basis, estimator):
    """Sum of a_u x⊗x⊗x through the basis, building D^3 for every user."""
    total = np.zeros((X.shape[1],) * 3)
    a, _ = estimator.term_weights(X.sum(axis=1), 3)
    for row, weight in zip(X.toarray(), a, strict=True):
        cube = distinct_triples(row) if estimator.distinct else np.einsum("i,j,k", row, row, row)
        total += weight * cube
    return np.einsum("abc,ai,bj,ck->ijk", total, basis, basis, basis, optimize=True)


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
@pytest.mark.parametrize("binary", [False, True])
def test_kernel_equals_brute_force(few_rows, name, binary, rng):
    X = sparse.csr_array((few_rows > 0).astype(float)) if binary else few_rows
    basis = rng.standard_normal((5, 4))
    expected = brute_force(X, basis, Estimator.from_name(name))
    np.testing.assert_allclose(
        triple_sums(X, basis, Estimator.from_name(name)), expected, rtol=1e-10, atol=1e-13
    )
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
def test_pairs_equal_brute_force(few_rows, name, rng):
    estimator, basis = Estimator.from_name(name), rng.standard_normal((5, 4))
    a, _ = estimator.term_weights(few_rows.sum(axis=1), 2)
    squares = (
        distinct_pairs(row) if estimator.distinct else np.outer(row, row)
        for row in few_rows.toarray()
    )
    total = sum(weight * square for weight, square in zip(a, squares, strict=True))
    pairs, _ = span_sums(few_rows, basis, estimator)
    np.testing.assert_allclose(pairs, basis.T @ total @ basis, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["unbiased", "balanced"])
def test_the_sums_are_the_same_to_the_last_digit_on_any_number_of_threads(counts, name, rng):
    basis = rng.standard_normal((counts.shape[1], 20)).astype(np.float32)
    results = []
    for n in (1, 2, 3):
        with using_cores(n):
            results.append(span_sums(counts, basis, Estimator.from_name(name)))
    for pairs, cubes in results[1:]:
        np.testing.assert_array_equal(pairs, results[0][0])
        np.testing.assert_array_equal(cubes, results[0][1])


@pytest.mark.parametrize("K", [1, 7, 30])
def test_blocks_and_threads_do_not_change_the_sum(counts, K, rng, monkeypatch):
    basis = rng.standard_normal((counts.shape[1], K))
    estimator = Estimator.from_name("unbiased")
    whole = triple_sums(counts, basis, estimator)
    monkeypatch.setattr(triples, "_USERS_PER_BLOCK", 97)
    monkeypatch.setattr(triples, "_STACKED_ROWS", 11)
    np.testing.assert_allclose(triple_sums(counts, basis, estimator), whole, rtol=1e-9)


def test_single_precision_agrees_with_double(counts, rng):
    basis = rng.standard_normal((counts.shape[1], 40))
    double = triple_sums(counts, basis, Estimator.from_name("balanced"))
    single = triple_sums(counts, basis.astype(np.float32), Estimator.from_name("balanced"))
    assert np.linalg.norm(single - double) < 2e-6 * np.linalg.norm(double)
