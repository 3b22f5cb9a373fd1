import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.algorithm.whitening import whiten
from mom_pipeline.core.errors import RankTooLow
from mom_pipeline.core.linear_algebra.eigenpairs import top_eigenpairs
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, fix_anchor
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.second_moment import SecondMoment
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline_tests.core.conftest import population_sums


@pytest.fixture(scope="module")
def wide():
    """A matrix too wide for LAPACK's shortcut, with a decaying spectrum."""
    rng = np.random.default_rng(5)
    popularity = 1 / np.arange(1, 901)
    rates = rng.gamma(0.3, size=(2000, 6)) @ (rng.gamma(0.2, size=(6, 900)) * popularity)
    return sparse.csr_array(rng.poisson(6 * rates / rates.mean() * 0.02).astype(float))


def operator(X, name, dtype=np.float64):
    estimator = Estimator.from_name(name)
    return SecondMoment.from_users(
        UsersInMemory(X), MomentSums.from_rows(X, estimator), estimator, dtype
    )


def whitened(X, name, K, dtype=np.float64):
    """Return W of a fit of its own, and the operator that it whitens."""
    settings = MomentSettings(Estimator.from_name(name), K, K, dtype=dtype)
    anchor = fix_anchor(UsersInMemory(X), settings)
    whitening = whiten(AnchoredSums.from_rows(X, anchor), K, dtype=np.dtype(dtype))
    return whitening, anchor, operator(X, name, dtype=dtype)


@pytest.mark.parametrize("name", ["paper", "unbiased", "balanced"])
def test_whitening_makes_the_second_moment_the_identity(wide, name, rng):
    whitening, anchor, M2 = whitened(wide, name, 12)
    W = whitening.matrix(anchor)
    np.testing.assert_allclose(W.T @ M2.apply(W), np.eye(12), atol=1e-9)
    np.testing.assert_allclose((anchor.basis @ whitening.inverse).T @ W, np.eye(12), atol=1e-9)
    pairs = top_eigenpairs(M2, 10, rng, tol=1e-12, max_passes=60)
    expected = np.linalg.eigvalsh(M2.explicit)[::-1][:10]
    np.testing.assert_allclose(pairs.values[:10], expected, rtol=1e-8)
    assert pairs.passes > 1
    assert pairs.residual < 1e-4


def test_warm_start_reaches_in_two_passes_what_a_cold_one_needs_many_for(wide, rng):
    M2 = operator(wide, "balanced")
    good = top_eigenpairs(M2, 10, rng, tol=1e-12, max_passes=60)
    warm = top_eigenpairs(M2, 10, rng, warm_start=good.vectors, max_passes=2)
    cold = top_eigenpairs(M2, 10, rng, max_passes=2)
    reached = good.values[:10].sum()
    assert warm.values[:10].sum() == pytest.approx(reached, rel=1e-9)
    assert cold.values[:10].sum() < 0.99 * reached


def test_no_positive_eigenvalue_is_an_error(rng):
    _, sums = population_sums(np.eye(5), np.full(5, -0.2))
    with pytest.raises(RankTooLow, match="no positive eigenvalue"):
        whiten(sums, 2, dtype=np.dtype(float))
