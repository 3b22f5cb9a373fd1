"""The conditional logit against a general optimiser, and where there is little to learn from."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking.logit import Choices, maximise
from mom_pipeline.core.threads import using_cores

F = 4


def some_choices(rng, n_users, n_candidates=12):
    """Users who take one to three of their candidates, some of which are missing."""
    z = rng.normal(size=(n_users, n_candidates, F)).astype(np.float32)
    offered = rng.random((n_users, n_candidates)) < 0.8
    offered[:, :3] = True
    taken = np.zeros(offered.shape)
    for user, n in enumerate(rng.integers(1, 4, n_users)):
        taken[user, :n] = 1 / n
    return Choices(z, taken, offered, rng.normal(size=n_users))


@pytest.fixture
def choices(rng):
    return [some_choices(rng, n) for n in (40, 25, 35)]


def objective(choices, w, start, penalty):
    """The penalised likelihood, one user after the other."""
    a, b = w.reshape(2, -1)
    total, n = 0.0, 0
    for own in choices:
        for z, taken, offered, length in zip(
            own.z, own.taken, own.offered, own.lengths, strict=True
        ):
            s = z[offered].astype(float) @ (a + length * b)
            total += taken[offered] @ (s - np.log(np.exp(s).sum()))
            n += 1
    return (total - penalty * ((w - start) ** 2).sum()) / n


def slopes(choices, w, start, penalty):
    n = sum(len(own.taken) for own in choices)
    return (sum(own.moments(w)[1] for own in choices) - 2 * penalty * (w - start)) / n


@pytest.mark.parametrize("penalty", [0.5, 20.0])
def test_it_is_the_largest_penalised_likelihood(choices, rng, penalty):
    start, free = rng.normal(size=2 * F), np.ones(2 * F, dtype=bool)
    free[[1, F + 2]] = False
    w = maximise(choices, start, penalty, free=free)

    def minus(own):
        at = start.copy()
        at[free] = own
        return -objective(choices, at, start, penalty), -slopes(choices, at, start, penalty)[free]

    found = minimize(minus, start[free], jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(w[free], found.x, atol=1e-6)
    np.testing.assert_array_equal(w[~free], start[~free])
    assert np.abs(slopes(choices, w, start, penalty)[free]).max() <= 1e-8
    assert objective(choices, w, start, penalty) >= objective(choices, start, start, penalty)


def test_any_number_of_threads_gives_the_same_coefficients(choices):
    found = []
    for n in (1, 2, 3):
        with using_cores(n):
            found.append(maximise(choices, np.zeros(2 * F), 1.0))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_features_that_say_nothing_or_the_same_are_harmless_without_a_penalty(choices):
    for own in choices:
        own.z[:, :, 1] = 7.0
        own.z[:, :, 3] = own.z[:, :, 2]
    w = maximise(choices, np.zeros(2 * F), 0.0)
    assert np.isfinite(w).all()
    assert np.abs(slopes(choices, w, 0.0, 0.0)).max() <= 1e-8
    np.testing.assert_allclose(w[[1, F + 1]], 0.0, atol=1e-5)


def test_a_choice_that_is_always_foreseen_stays_finite_without_a_penalty(choices):
    for own in choices:
        own.z[:, :, 0] = own.taken > 0
    assert np.isfinite(maximise(choices, np.zeros(2 * F), 0.0)).all()


def test_without_users_or_without_freedom_it_is_the_start(choices, rng):
    start = rng.normal(size=2 * F)
    for nothing in ([], [some_choices(rng, 0)]):
        np.testing.assert_array_equal(maximise(nothing, start, 1.0), start)
    held = maximise(choices, start, 1.0, free=np.zeros(2 * F, dtype=bool))
    np.testing.assert_array_equal(held, start)
    with pytest.raises(InvalidSetting):
        maximise(choices, start, -1.0)
