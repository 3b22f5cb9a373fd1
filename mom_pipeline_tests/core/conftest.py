"""Small data with a known answer, shared by the tests of the method."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.simulation import LatentClasses, draw_classes, simulate
from mom_pipeline.core.types import Csr


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def truth_and_counts() -> tuple[LatentClasses, Csr]:
    return simulate(n_users=6_000, n_items=300, n_components=5, items_per_user=12, seed=1)


@pytest.fixture(scope="session")
def counts(truth_and_counts: tuple[LatentClasses, Csr]) -> Csr:
    return truth_and_counts[1]


@pytest.fixture(scope="session")
def classes() -> LatentClasses:
    return draw_classes(40, 5, np.random.default_rng(3))


@pytest.fixture
def few_rows() -> Csr:
    """Six users with repeats, one of them without any item."""
    rows = [
        [2, 0, 1, 0, 3],
        [0, 1, 0, 1, 0],
        [1, 1, 1, 1, 1],
        [0] * 5,
        [4, 0, 0, 0, 1],
        [1] + [0] * 4,
    ]
    return sparse.csr_array(np.array(rows, dtype=float))


def events_of(row: np.ndarray) -> list[int]:
    """The events of one user, an item as often as it was taken."""
    return [item for item, count in enumerate(row) for _ in range(int(count))]


def distinct_pairs(row: np.ndarray) -> np.ndarray:
    """Sum over ordered pairs of different events, by brute force."""
    total = np.zeros((len(row), len(row)))
    for i, j in permutations(events_of(row), 2):
        total[i, j] += 1
    return total


def distinct_triples(row: np.ndarray) -> np.ndarray:
    """Sum over ordered triples of different events, by brute force."""
    total = np.zeros((len(row),) * 3)
    for i, j, k in permutations(events_of(row), 3):
        total[i, j, k] += 1
    return total
