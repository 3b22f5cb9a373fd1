"""Small data for the rivals: counts of users with known tastes, split into past and future."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.simulation import simulate
from mom_pipeline.core.types import Csr


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def counts() -> Csr:
    """Ten users of six items, one of them without a history, two with the same one."""
    rows = [
        [2, 0, 1, 0, 3, 0],
        [0, 1, 0, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [0] * 6,
        [4, 0, 0, 0, 1, 0],
        [1, 0, 0, 0, 0, 1],
        [0, 1, 0, 1, 0, 0],
        [0, 2, 1, 0, 0, 1],
        [0, 0, 1, 1, 0, 1],
        [1, 3, 0, 0, 0, 0],
    ]
    return sparse.csr_array(np.array(rows, dtype=float))


@pytest.fixture(scope="session")
def past_and_future() -> tuple[Csr, Csr]:
    """Counts of 1,500 users of 120 items in five components, and the fifth of them to be found."""
    _, X = simulate(1_500, 120, 5, items_per_user=15, seed=3, zipf_exponent=0.3)
    rng = np.random.default_rng(0)
    hidden = rng.random(X.nnz) < 0.2
    past, future = X.copy(), X.copy()
    past.data = np.where(hidden, 0, X.data)
    future.data = np.where(hidden, X.data, 0)
    past.eliminate_zeros()
    future.eliminate_zeros()
    return past, future
