import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.methods import plsi
from mom_pipeline.comparison.methods.plsi import expectation_maximisation, fit_plsi, has_converged


@pytest.fixture
def many():
    X = np.random.default_rng(7).poisson(0.3, size=(50, 30)).astype(float)
    X[4] = 0
    return sparse.csr_array(X)


def run(X, steps, seed=0, K=4, **options):
    rng = np.random.default_rng(seed)
    return expectation_maximisation(X, K, rng, tol=0.0, max_iterations=steps, **options)


def posterior_loop(x, theta, O, b=1.0):
    """One EM step with P[k | u, y] of every event written out."""
    new_theta, new_O = np.zeros_like(theta), np.zeros_like(O)
    for u, y in np.argwhere(x):
        p = (theta[u] * O[y]) ** b
        p /= p.sum()
        new_theta[u] += x[u, y] * p
        new_O[y] += x[u, y] * p
    for u in range(len(x)):
        new_theta[u] = new_theta[u] / new_theta[u].sum() if x[u].any() else theta[u]
    return new_theta, new_O / new_O.sum(axis=0)


@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_steps_equal_a_loop_over_events(many, temperature):
    start = run(many, 1, temperature=temperature)
    after = run(many, 3, temperature=temperature)
    theta, O = start.memberships, start.item_probs
    for _ in range(2):
        theta, O = posterior_loop(many.toarray(), theta, O, temperature)
    np.testing.assert_allclose(after.memberships, theta, rtol=1e-8)
    np.testing.assert_allclose(after.item_probs, O, rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("b", [1.0, 0.8])
def test_the_log_likelihood_is_that_of_the_mixture(many, b):
    fit = run(many, 5, temperature=b)
    x = many.toarray()
    P = fit.memberships**b @ fit.item_probs.T**b
    expected = (x[x > 0] * np.log(P[x > 0])).sum() / b
    np.testing.assert_allclose(fit.log_likelihoods[-1], expected, rtol=1e-12)
    np.testing.assert_allclose(fit.item_probs.sum(axis=0), 1)
    np.testing.assert_allclose(fit.memberships.sum(axis=1), 1)


def test_blocks_and_single_precision_do_not_matter(many, monkeypatch):
    whole = run(many, 5)
    monkeypatch.setattr(plsi, "_ENTRIES_PER_BLOCK", 10)
    np.testing.assert_allclose(run(many, 5).item_probs, whole.item_probs, rtol=1e-12)
    monkeypatch.setattr(plsi, "_SINGLE_FROM", 10)
    single = run(many, 5)
    assert single.item_probs.dtype == np.float32
    np.testing.assert_allclose(single.item_probs, whole.item_probs, atol=1e-5)


def test_the_papers_stopping_rule(many):
    assert not has_converged([-1000.0], 0.001)
    assert not has_converged([-1000.0, -998.9], 0.001)
    assert has_converged([-1000.0, -999.1], 0.001)
    fitted = fit_plsi(many, 0, n_components=4, tol=0.01)
    L = run(many, fitted.notes["iterations"]).log_likelihoods
    assert fitted.notes["log_likelihood"] == pytest.approx(L[-1], rel=1e-12)
    gains = np.diff(L) / np.abs(L[:-1])
    assert (gains[:-1] >= 0.01).all()
    assert gains[-1] < 0.01
    assert fitted.notes["converged"]


def test_a_history_folded_in_for_long_is_fitted_like_the_users_own(many):
    fitted = fit_plsi(
        many, 0, n_components=3, tol=0.0, max_iterations=300, em_steps=300, smoothing=1e-9
    )
    fit = run(many, 300, K=3)
    scores = fitted.scores(np.array([1, 2, 3]))
    np.testing.assert_allclose(scores, (fit.memberships @ fit.item_probs.T)[[1, 2, 3]], atol=2e-3)
    np.testing.assert_allclose(scores.sum(axis=1), 1)
