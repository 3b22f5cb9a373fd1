import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.errors import RankTooLow
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.pairs import PairMoments
from mom_pipeline.core.moments.sums import Estimator, MomentSums


@pytest.fixture(scope="module")
def wide():
    """A matrix too wide for LAPACK's shortcut, with a decaying spectrum."""
    rng = np.random.default_rng(5)
    popularity = 1 / np.arange(1, 901)
    rates = rng.gamma(0.3, size=(2000, 6)) @ (rng.gamma(0.2, size=(6, 900)) * popularity)
    return sparse.csr_array(rng.poisson(6 * rates / rates.mean() * 0.02).astype(float))


def operator(X, name, dtype=np.float64, free=False):
    estimator = Estimator.of(name)
    M2 = PairMoments.of(X, MomentSums.of(X, estimator), estimator, dtype=dtype)
    return PairMoments(M2.normalised, M2.diagonal, M2.item_scale) if free else M2


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
@pytest.mark.parametrize("free", [False, True])
def test_whitening_makes_the_second_moment_the_identity(wide, name, free, rng):
    M2 = operator(wide, name, free=free)
    whitening = whiten(M2, 12, rng)
    W = whitening.matrix
    np.testing.assert_allclose(W.T @ M2.apply(W), np.eye(12), atol=1e-9)
    np.testing.assert_allclose(whitening.inverse.T @ W, np.eye(12), atol=1e-9)


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
def test_eigenvalues_are_those_of_lapack(wide, name, rng):
    M2 = operator(wide, name)
    expected = np.linalg.eigvalsh(M2.apply(np.eye(M2.n_items)))[::-1][:10]
    pairs = top_eigenpairs(M2, 10, rng, tol=1e-12, max_passes=60)
    np.testing.assert_allclose(pairs.values[:10], expected, rtol=1e-8)
    assert pairs.residual < 1e-4


def test_single_precision_whitens_to_1e_4(wide, rng):
    M2 = operator(wide, "balanced", dtype=np.float32, free=True)
    W = whiten(M2, 20, rng).matrix
    assert W.dtype == np.float32
    np.testing.assert_allclose(W.T @ M2.apply(W), np.eye(20), atol=1e-4)


def test_warm_start_reaches_in_two_passes_what_a_cold_one_needs_many_for(wide, rng):
    M2 = operator(wide, "balanced")
    good = top_eigenpairs(M2, 10, rng, tol=1e-12, max_passes=60)
    warm = top_eigenpairs(M2, 10, rng, warm_start=good.vectors, max_passes=2)
    cold = top_eigenpairs(M2, 10, rng, max_passes=2)
    reached = good.values[:10].sum()
    assert warm.values[:10].sum() == pytest.approx(reached, rel=1e-9)
    assert cold.values[:10].sum() < 0.99 * reached


def test_more_components_than_rank_shrink_to_the_rank(rng):
    basis = rng.standard_normal((700, 4))
    M2 = PairMoments.exact(basis @ basis.T)
    whitening = whiten(M2, 10, rng)
    assert whitening.n_components == 4
    assert whitening.requested == 10
    W = whitening.matrix
    np.testing.assert_allclose(W.T @ M2.apply(W), np.eye(4), atol=1e-8)


def test_no_positive_eigenvalue_is_an_error(rng):
    with pytest.raises(RankTooLow, match="no positive eigenvalue"):
        whiten(PairMoments.exact(-np.eye(5)), 2, rng)


def test_same_seed_gives_the_same_vectors(wide):
    M2 = operator(wide, "balanced")
    first, second = (top_eigenpairs(M2, 5, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    assert (first.vectors.sum(axis=0) >= 0).all()
