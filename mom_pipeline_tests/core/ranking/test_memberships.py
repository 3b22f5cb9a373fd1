import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking import memberships as personalization
from mom_pipeline.core.ranking.memberships import Personalization, memberships, smoothed

RULES = ["product", "tempered", "em"]


@pytest.fixture
def positive(classes):
    return smoothed(classes.item_probs, classes.item_probs @ classes.weights, 0.05)


@pytest.fixture
def rows(rng):
    X = rng.poisson(0.2, size=(200, 40)).astype(float)
    X[3] = 0
    return sparse.csr_array(X)


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_distributions_and_an_empty_history_gives_pi(rule, rows, positive, classes):
    P = memberships(rows, positive, classes.weights, Personalization(rule))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    assert P.min() >= 0
    np.testing.assert_allclose(P[3], classes.weights, rtol=1e-12)


def test_product_is_the_papers_equation(rows, positive, classes):
    P = memberships(rows, positive, classes.weights, Personalization("product"))
    for user in range(20):
        x = rows[[user]].toarray().ravel()
        likelihood = classes.weights * np.prod(positive ** x[:, None], axis=0)
        np.testing.assert_allclose(P[user], likelihood / likelihood.sum(), rtol=1e-9)


def test_em_equals_a_loop_over_events(rows, positive, classes):
    P = memberships(rows, positive, classes.weights, Personalization("em", em_steps=3))
    x = rows[[11]].toarray().ravel()
    theta = classes.weights.copy()
    for _ in range(3):
        shares = [theta * positive[y] / (theta @ positive[y]) * x[y] for y in np.flatnonzero(x)]
        theta = np.sum(shares, axis=0) / x.sum()
    np.testing.assert_allclose(P[11], theta, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_very_long_history_stays_finite(rule, positive, classes):
    P = memberships(
        sparse.csr_array(np.full((1, 40), 1e5)), positive, classes.weights, Personalization(rule)
    )
    assert np.isfinite(P).all()
    assert P.sum() == pytest.approx(1.0)


def test_single_precision_memberships_hold_no_subnormal_numbers(classes):
    O = smoothed(classes.item_probs.astype(np.float32), np.full(40, 1 / 40), 0.01)
    X = sparse.csr_array(np.random.default_rng(0).poisson(3.0, size=(300, 40)).astype(float))
    P = memberships(X, O, classes.weights, Personalization("product"))
    assert P.dtype == np.float32
    assert (P == 0).any()
    assert P[P > 0].min() > 1e-21


@pytest.mark.parametrize("rule", RULES)
def test_blocks_do_not_change_the_result(rule, rows, positive, classes, monkeypatch):
    whole = memberships(rows, positive, classes.weights, Personalization(rule))
    monkeypatch.setattr(personalization, "_EVENTS_PER_BLOCK", 13)
    np.testing.assert_allclose(
        memberships(rows, positive, classes.weights, Personalization(rule)), whole, rtol=1e-12
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "map"},
        {"smoothing": -0.1},
        {"smoothing": 1.0},
        {"temperature": 0.0},
        {"em_steps": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidSetting, match="found"):
        Personalization(**wrong)


def test_without_smoothing_a_zero_rules_a_component_out_but_no_nan_comes():
    O, pi = np.array([[0.5, 0.0], [0.5, 0.5], [0.0, 0.5]]), np.array([0.3, 0.7])
    settings = Personalization("product", smoothing=0.0)
    X = sparse.csr_array(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    P = memberships(X, smoothed(O, np.full(3, 1 / 3), 0.0), pi, settings)
    np.testing.assert_allclose(P[0], [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(P[1:], [[0.3, 0.7], [0.3, 0.7]], atol=1e-12)
