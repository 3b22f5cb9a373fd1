"""Small data with a known answer, shared by the tests of the method."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.linear_algebra.compact import packed
from mom_pipeline.core.moments.anchored import Anchor, AnchoredSums
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.simulation import draw_classes, simulate


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def truth_and_counts():
    return simulate(n_users=6_000, n_items=300, n_components=5, items_per_user=12, seed=1)


@pytest.fixture(scope="session")
def counts(truth_and_counts):
    return truth_and_counts[1]


@pytest.fixture(scope="session")
def classes():
    return draw_classes(40, 5, np.random.default_rng(3))


@pytest.fixture
def few_rows():
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


def distinct_draws(row, order):
    """Sum over ordered pairs or triples of different events of a user, by brute force."""
    events = [item for item, count in enumerate(row) for _ in range(int(count))]
    total = np.zeros((len(row),) * order)
    for drawn in permutations(events, order):
        total[drawn] += 1
    return total


def population_sums(item_probs, weights, scale=None):
    """The exact moments of a known model, seen through the leading vectors of its M2.

    scale: (D,) of the item space, ones unless given.
    """
    D = len(item_probs)
    scale = np.ones(D) if scale is None else scale
    O = item_probs * scale[:, None]
    M2 = (O * weights) @ O.T
    U = np.linalg.eigh(M2)[1][:, ::-1][:, : min(D, len(weights) + 6)]
    seen = U.T @ O
    nothing = np.zeros(D)
    first = MomentSums(1, np.ones(3), 1.0, 1.0, nothing, nothing, nothing)
    sums = AnchoredSums(
        first,
        pairs=U.T @ M2 @ U,
        triples=packed(np.einsum("k,ik,jk,lk->ijl", weights, seen, seen, seen)),
        item_pairs=M2 @ U / scale[:, None],
    )
    return Anchor(U, scale, Estimator.from_name("paper")), sums


def assert_same_sums(sums, expected, rtol=1e-9):
    """Relative to the largest entry of each array."""
    ours, theirs = sums.as_arrays(), expected.as_arrays()
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        scale = max(np.abs(array).max(initial=0.0), 1e-12)
        assert np.abs(ours[name] - array).max(initial=0.0) <= rtol * scale, name
