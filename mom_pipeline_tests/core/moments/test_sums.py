import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.moments.pairs import PairMoments, gram_product
from mom_pipeline.core.moments.sums import Estimator, MomentSums
from mom_pipeline.core.threads import using_cores
from mom_pipeline_tests.core.conftest import distinct_pairs

NAMES = ["paper", "unbiased", "balanced"]


def second_moment(X, estimator):
    """M2 in the unscaled item space, by brute force over users."""
    total, weight = np.zeros((X.shape[1],) * 2), 0.0
    for row in X.toarray():
        n = row.sum()
        if estimator.distinct:
            if n < 2:
                continue
            term, omega = distinct_pairs(row) / (n * (n - 1)), n**estimator.user_weight
        elif n == 0:
            continue
        else:
            power = 2 if estimator.user_weight is None else estimator.user_weight
            term, omega = np.outer(row, row) / n**2, n**power
        total += omega * term
        weight += omega
    return total / weight


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("binary", [False, True])
def test_operator_equals_brute_force_over_users(few_rows, name, binary, rng):
    X = sparse.csr_array((few_rows > 0).astype(float)) if binary else few_rows
    estimator = Estimator.of(name)
    sums = MomentSums.of(X, estimator)
    M2 = PairMoments.of(X, sums, estimator)
    S = np.diag(M2.item_scale)
    expected = S @ second_moment(X, estimator) @ S
    Q = rng.standard_normal((5, 3))
    np.testing.assert_allclose(M2.apply(Q), expected @ Q, rtol=1e-12, atol=1e-15)


def test_distinct_draws_in_a_scaled_space(few_rows):
    estimator = Estimator.of("unbiased", item_scaling=0.5, user_weight=1.5)
    M2 = PairMoments.of(few_rows, MomentSums.of(few_rows, estimator), estimator)
    assert M2.item_scale.min() < 0.6
    S = np.diag(M2.item_scale)
    expected = S @ second_moment(few_rows, estimator) @ S
    np.testing.assert_allclose(M2.apply(np.eye(5)), expected, rtol=1e-12, atol=1e-15)


def test_paper_is_algorithm_one_to_the_letter(few_rows):
    X = sparse.csr_array((few_rows > 0).astype(float))
    estimator = Estimator.of("paper")
    M2 = PairMoments.of(X, MomentSums.of(X, estimator), estimator)
    nnz = np.diff(X.indptr)
    expected = (X.T @ X).toarray() / (nnz**2).sum()
    np.testing.assert_allclose(M2.apply(np.eye(5)), expected, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_matrix_free_product_equals_the_explicit_one(counts, name, rng):
    estimator = Estimator.of(name)
    M2 = PairMoments.of(counts, MomentSums.of(counts, estimator), estimator)
    assert M2.explicit is not None
    free = PairMoments(M2.normalised, M2.diagonal, M2.item_scale)
    Q = rng.standard_normal((counts.shape[1], 9))
    np.testing.assert_allclose(free.apply(Q), M2.apply(Q), rtol=1e-10, atol=1e-16)


@pytest.mark.parametrize("name", NAMES)
def test_sums_of_blocks_add_up_and_a_user_can_be_taken_out(counts, name):
    estimator = Estimator.of(name)
    whole = MomentSums.of(counts, estimator)
    blocks = [MomentSums.of(counts[i : i + 1000], estimator) for i in range(0, 6000, 1000)]
    added = sum(blocks[1:], start=blocks[0])
    without = whole - MomentSums.of(counts[:1], estimator)
    rest = MomentSums.of(counts[1:], estimator)
    for found, expected in [(added, whole), (without, rest)]:
        assert found.n_users == expected.n_users
        np.testing.assert_allclose(found.size_sums, expected.size_sums, rtol=1e-12)
        np.testing.assert_allclose(found.pair_diagonal, expected.pair_diagonal, rtol=1e-9)
        np.testing.assert_allclose(found.item_users, expected.item_users)
        assert found.triple_weight == pytest.approx(expected.triple_weight, rel=1e-12)


def test_sizes_of_a_huge_user_do_not_overflow():
    X = sparse.csr_array(np.ones((1, 100_000)))
    sums = MomentSums.of(X, Estimator.of("paper"))
    assert sums.size_sums == (1e5, 1e10, 1e15)
    assert sums.triple_weight == 1e15


def test_users_too_short_for_a_draw_weigh_nothing():
    a, weight = Estimator.of("unbiased").term_weights(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), 3)
    np.testing.assert_array_equal(a, [0, 0, 0, 1 / 6, 1 / 24])
    assert weight == 2.0


def test_product_does_not_depend_on_the_number_of_threads(counts, rng):
    R = sparse.csr_array(counts)
    Q = rng.standard_normal((counts.shape[1], 150))
    with using_cores(2):
        two = gram_product(R, Q)
    with using_cores(1):
        np.testing.assert_array_equal(gram_product(R, Q), two)


def test_unknown_estimator_and_no_pairs_are_refused():
    with pytest.raises(InvalidSetting, match="'balanced', 'paper', 'unbiased'"):
        Estimator.of("best")
    single = sparse.csr_array(np.eye(3))
    unbiased = Estimator.of("unbiased")
    with pytest.raises(InvalidInteractions, match="2 events"):
        PairMoments.of(single, MomentSums.of(single, unbiased), unbiased)
