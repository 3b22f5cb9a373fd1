"""Pairs as sums over users: the same whatever the order, and within their bytes."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.interactions import as_interactions, resized
from mom_pipeline.core.moments.cooccurrences import Cooccurrences, from_steps, rare_items, steps_of
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.threads import using_cores


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.2, size=(400, 60)) * (rng.random(60) < 0.9))


def assert_equal(ours, theirs):
    for name, array in theirs.as_arrays().items():
        np.testing.assert_array_equal(ours.as_arrays()[name], array, err_msg=name)


def by_hand(X, exponent):
    once = (X.toarray() > 0).astype(float)
    weights = np.maximum(once.sum(axis=1), 1.0) ** -exponent
    return once.T @ (weights[:, None] * once)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_every_user_adds_a_weight_to_each_pair(X, exponent):
    counts = Cooccurrences.from_rows(X, exponent)
    matrix = counts.matrix()
    assert matrix.has_canonical_format
    np.testing.assert_allclose(matrix.toarray(), by_hand(X, exponent), rtol=1e-6)
    items = np.array([3, 4, 11, 50])
    expected = by_hand(X, exponent)[np.ix_(items, items)]
    np.testing.assert_allclose(counts.among(items), expected, rtol=1e-6)


def test_any_order_gives_the_same_sums_to_the_last_digit(X, rng):
    whole = Cooccurrences.from_rows(X, 0.5)
    parts = np.array_split(rng.permutation(X.shape[0]), 7)
    total = Cooccurrences.from_rows(X[parts[0]], 0.5)
    for part in parts[1:]:
        total = total + Cooccurrences.from_rows(X[part], 0.5)
    assert_equal(total, whole)
    for cores in (1, 2, 3):
        with using_cores(cores):
            assert_equal(Cooccurrences.from_rows(X, 0.5), whole)


def test_changed_and_forgotten_rows_and_new_items_equal_a_recount(X, rng):
    old = sparse.csr_array(X[:300, :50])
    changed = rng.choice(300, 40, replace=False)
    now = resized(old, (300, 60)).tolil()
    now[changed] = X[rng.choice(400, 40, replace=False)].toarray()
    now = as_interactions(sparse.vstack([now, X[300:]]))
    added = sparse.csr_array(sparse.vstack([now[changed], X[300:]]))
    counts = Cooccurrences.from_rows(old, 0.5).update(resized(old, (300, 60))[changed], added)
    assert_equal(counts, Cooccurrences.from_rows(now, 0.5))
    alone = sparse.csr_array((np.ones(2), ([0, 0], [7, 31])), shape=(1, 60))
    with_one = counts.update(alone[:0], alone)
    assert with_one.n_pairs >= counts.n_pairs
    assert_equal(with_one.update(alone, alone[:0]), counts)  # no entry is left behind
    with pytest.raises(InvalidInteractions, match="as they were when they were added"):
        Cooccurrences.from_rows(X[:10], 1.0).update(X, X[:0])


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6, 2.0])
def test_the_pairs_of_popular_items_fit_into_the_bytes(X, share):
    whole = Cooccurrences.from_rows(X, 1.0)
    most, as_it_was = int(share * whole.n_pairs), X.copy()
    rare = rare_items(UsersInMemory(X), 48 * most)
    np.testing.assert_array_equal(X.toarray(), as_it_was.toarray())
    counts = Cooccurrences.from_rows(X, 1.0, uncounted=rare)
    assert counts.n_pairs <= most
    users = np.bincount(X.indices, minlength=60)
    kept = np.setdiff1d(np.arange(60), rare)
    assert (len(rare) == 0) == (share > 1)
    assert not len(rare) or users[kept].min(initial=10**6) >= users[rare].max()
    expected = by_hand(X, 1.0)[np.ix_(kept, kept)]
    np.testing.assert_allclose(counts.matrix().toarray()[np.ix_(kept, kept)], expected, rtol=1e-6)
    np.testing.assert_array_equal(counts.item_users, users)
    assert counts.matrix().nnz == np.count_nonzero(expected)


@pytest.mark.parametrize("n_items", [1, 255, 256, 65_535, 65_536, 100_000])
def test_items_come_back_from_their_steps(n_items, rng):
    items = np.sort(rng.integers(0, n_items, size=(40, 9)), axis=1).ravel()  # rising in each row
    steps = steps_of(items, n_items)
    assert steps.dtype.itemsize <= 4
    np.testing.assert_array_equal(from_steps(steps), items)
