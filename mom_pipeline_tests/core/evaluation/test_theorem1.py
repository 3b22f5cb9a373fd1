import numpy as np
import pytest

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.evaluation.theorem1 import theorem_1

SIZES = (10.0, 120.0, 1500.0)
EIGENVALUES = np.array([0.5, 0.3, 0.2])
WEIGHTS = np.array([0.5, 0.3, 0.2])


def test_numbers_are_those_of_the_theorem():
    found = theorem_1(10_000, SIZES, EIGENVALUES, WEIGHTS, delta=0.1)
    eps = 1 + np.sqrt(np.log(10) / 2)
    s1, sk, d2, d3, root = 0.5, 0.2, 120.0, 1500.0, 100.0
    mu = 160 * s1**0.5 / (d2 * sk**2.5) + 32 * (2 * s1) ** 0.5 / (d3 * sk**1.5)
    mu += 4 * s1**0.5 / (d2 * sk)
    assert found.mu_bound == pytest.approx(mu * eps / root)
    pi = 200 / sk**2.5 + 40 * 2**0.5 / sk**1.5
    assert found.pi_bound == pytest.approx(pi * eps / (d3 * root))
    assert found.n1 == pytest.approx(np.log(3) + np.log(np.log(3 * 2.5**0.5)))
    assert found.n2 == pytest.approx((eps / (d2 * sk)) ** 2)
    tensor = 10 / (d2 * sk**2.5) + 2 * 2**0.5 / (d3 * sk**1.5)
    assert found.n3 == pytest.approx(9 * tensor**2 * eps**2)


def test_few_users_and_a_bound_that_says_nothing_are_warned_about():
    few, enough = (theorem_1(n, SIZES, EIGENVALUES, WEIGHTS).warnings for n in (8, 9))
    assert len(few) == len(enough) + 1
    empty = theorem_1(1000, SIZES, np.array([1e-3, 1e-5]), np.array([0.5, 0.5]))
    tight = theorem_1(10**12, SIZES, EIGENVALUES, WEIGHTS)
    assert (empty.says_nothing, tight.says_nothing, tight.warnings) == (True, False, ())
    assert empty.in_words.count("says nothing") == 2 > tight.in_words.count("says nothing")
    with pytest.raises(InvalidSetting, match="between 0 and 1"):
        theorem_1(10, SIZES, EIGENVALUES, WEIGHTS, delta=1.0)
