from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import as_binary, as_interactions
from mom_pipeline.core.moments.cooccurrences import Cooccurrences
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.ease import Ease
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Histories, Pairs

# The rounding of half precision: low-pass and EASE parts are kept in it.
HALF = 2**-11


def rows(X, posterior=None):
    return Histories(X, posterior)


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def G(X):
    """The second moment, one user after the other."""
    total = np.zeros((25, 25))
    for row in (X.toarray() > 0).astype(float):
        total += np.outer(row, row) / np.sqrt(max(row.sum(), 1.0))
    return total


def counts(X):
    return Cooccurrences.from_rows(X, 0.5)


@pytest.mark.parametrize("exponent", [0.5, 0.9])
def test_pair_scores_are_the_formula(X, G, exponent):
    once = X.toarray() > 0
    c = np.maximum(once.sum(axis=0), 1.0)
    expected = once @ (c[:, None] ** -exponent * G * c ** (exponent - 1))
    pairs = replace(Pairs.from_counts(counts(X)), history_exponent=exponent)
    np.testing.assert_allclose(pairs.scores(rows(X)), expected, rtol=1e-4)
    some = np.tile([3, 0], (X.shape[0], 1))
    np.testing.assert_allclose(pairs.at(rows(X), some), expected[:, [3, 0]], rtol=1e-4)


def written_out(ease):
    return ease.matrix.entries.toarray() + ease.rest


def test_ease_is_ridge_regressions_of_every_item_on_the_others(X, G):
    ridge = 0.7 * np.diag(G).mean()
    B = written_out(Ease.from_counts(counts(X), 0.7))
    for y in range(25):
        others = np.delete(np.arange(25), y)
        A = G[np.ix_(others, others)] + ridge * np.eye(24)
        expected = np.linalg.solve(A, G[others, y])
        np.testing.assert_allclose(B[others, y], expected, rtol=HALF, atol=1e-5)
    np.testing.assert_array_equal(np.diag(B), 0.0)
    once = as_binary(X)
    np.testing.assert_allclose(
        Ease.from_counts(counts(X), 0.7).scores(rows(X)),
        once.toarray() @ B,
        rtol=1e-4,
        atol=1e-6,
    )


def test_items_that_nobody_took_are_harmless():
    X = as_interactions(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]))
    assert np.isfinite(Ease.from_counts(counts(X), 0.2).scores(rows(X))).all()
    assert not Ease.from_counts(counts(sparse.csr_array((2, 3))), 0.2).matrix.entries.nnz
    assert np.isfinite(Pairs.from_counts(counts(X)).scores(rows(X))).all()


@pytest.mark.parametrize("block", [4, 4096])
def test_in_a_large_catalogue_an_item_is_regressed_on_its_nearest_ones(X, G, monkeypatch, block):
    monkeypatch.setattr("mom_pipeline.core.ranking.ease.MAX_INVERTED_ITEMS", 10)
    monkeypatch.setattr("mom_pipeline.core.ranking.ease._NEAREST", 6)
    monkeypatch.setattr("mom_pipeline.core.ranking.ease._SOLVED_PER_BLOCK", block)
    X = sparse.csr_array(sparse.hstack([X, sparse.csr_array((80, 1))]))  # nobody takes the last
    B = written_out(Ease.from_counts(counts(X), 0.7))
    for y in range(25):
        others = np.delete(np.arange(25), y)
        N = np.flatnonzero(B[:, y])  # the six of the most pairs, any of equal ones
        np.testing.assert_allclose(np.sort(G[y, N]), np.sort(G[y, others])[-6:], rtol=1e-6)
        expected = np.zeros(26)
        expected[N] = np.linalg.solve(
            G[np.ix_(N, N)] + 0.7 * np.diag(G).mean() * np.eye(6), G[N, y]
        )
        np.testing.assert_allclose(B[:, y], expected, rtol=HALF, atol=1e-5)
    assert not B[:, 25].any()


def test_of_the_inverse_each_row_keeps_its_largest_entries_and_each_column_a_mean(X, monkeypatch):
    whole = written_out(Ease.from_counts(counts(X), 0.7))
    monkeypatch.setattr("mom_pipeline.core.ranking.ease._ENTRIES", 6)
    ease = Ease.from_counts(counts(X), 0.7)
    kept = ease.matrix.entries.toarray() != 0
    largest = np.argsort(-np.abs(whole), axis=1)[:, :6]
    expected = np.eye(25, dtype=bool)
    np.put_along_axis(expected, largest, True, axis=1)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_allclose(written_out(ease)[kept], whole[kept], rtol=2 * HALF, atol=1e-5)
    users = (X.toarray() > 0).sum(axis=0)
    others = np.where(kept, 0.0, users[:, None])
    np.testing.assert_allclose(
        ease.rest, (others * whole).sum(axis=0) / others.sum(axis=0), rtol=HALF, atol=1e-5
    )


def test_a_ridge_of_zero_is_refused():
    with pytest.raises(InvalidSetting, match="above 0"):
        Ease.from_counts(counts(sparse.csr_array((2, 9))), 0.0)


@pytest.fixture(autouse=True)
def _six_eigenvectors(monkeypatch):
    monkeypatch.setattr("mom_pipeline.core.ranking.low_pass._ITEMS_PER_VECTOR", 4)


def test_low_pass_sees_a_history_through_the_leading_eigenvectors(X):
    part, once = LowPass.from_users(UsersInMemory(X)), as_binary(X).toarray()
    S = np.diag(np.maximum(once.sum(axis=0), 1.0) ** -0.25)
    V = np.linalg.eigh(S @ counts(X).matrix().toarray() @ S)[1][:, ::-1][:, :6]
    expected = once @ S @ V @ V.T @ np.linalg.inv(S)
    assert part.basis.shape == (25, 6)
    np.testing.assert_allclose(part.scores(rows(X)), expected, atol=0.02)


@pytest.fixture(params=["pairs", "ease", "low-pass"])
def part(request, X):
    return {
        "pairs": lambda: Pairs.from_counts(counts(X)),
        "ease": lambda: Ease.from_counts(counts(X), 1.0),
        "low-pass": lambda: LowPass.from_users(UsersInMemory(X)),
    }[request.param]()


def test_scores_of_some_items_are_those_of_all(part, X, rng):
    """Also what the items of a history add."""
    histories, items = rows(X), rng.integers(0, 25, size=(80, 7))
    whole = part.scores(histories)
    expected = np.take_along_axis(whole, items, axis=1)
    np.testing.assert_allclose(part.at(histories, items), expected, rtol=1e-4, atol=1e-6)
    added = np.add.reduceat(part.by_entry(histories, items), X.indptr[:-1], axis=0)
    np.testing.assert_allclose(
        added[np.diff(X.indptr) > 0], expected[np.diff(X.indptr) > 0], rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(("pairs", "users"), [(1, 1), (100, 32), (10**6, 7), (10**6, 200)])
def test_pairs_written_out_give_the_same_scores(X, monkeypatch, pairs, users):
    X = as_interactions(X.toarray() * (np.arange(80) % 9 > 0)[:, None] * (np.arange(25) != 7))
    assert (np.diff(X.indptr) == 0).sum() >= 8
    dense = Pairs.from_counts(counts(X)).scores(rows(X))
    monkeypatch.setattr("mom_pipeline.core.ranking.item_matrix._ENTRIES_AT_A_TIME", pairs)
    monkeypatch.setattr("mom_pipeline.core.ranking.item_matrix._USERS_AT_A_TIME", users)
    for share in (0.8, 2):  # some rows, and none
        monkeypatch.setattr("mom_pipeline.core.ranking.item_matrix._DENSE_SHARE", share)
        a_few_users = Pairs.from_counts(counts(X)).scores(rows(X))
        np.testing.assert_allclose(dense, a_few_users, rtol=1e-5, atol=1e-6)
    assert dense.any()


def test_popularity_counts_users_and_not_events():
    X = as_interactions(np.array([[9.0, 1.0], [0.0, 1.0], [0.0, 1.0]]))
    sums = MomentSums.from_rows(X, Estimator.from_name("balanced"))
    np.testing.assert_array_equal(sums.popularity, [0.25, 0.75])


def test_what_was_taken_long_ago_counts_for_less_in_ease(X, rng):
    """Half after 30 days, counted back from the newest of the user's own days."""
    days = X.copy()
    days.data = rng.integers(1, 90, size=X.nnz).astype(np.float64)
    dated = Histories(X, lambda rows: np.empty((rows.shape[0], 0)), last_days=days)
    newest = days.toarray().max(axis=1, keepdims=True)
    weights = np.where(X.toarray() > 0, 2.0 ** ((days.toarray() - newest) / 30), 0.0)
    part = Ease.from_counts(counts(X))
    expected = weights @ (part.matrix.entries.toarray() + part.rest)
    np.testing.assert_allclose(part.scores(dated), expected, rtol=1e-4, atol=1e-6)
    items = rng.integers(0, 25, size=(80, 7))
    np.testing.assert_allclose(
        part.at(dated, items), np.take_along_axis(expected, items, axis=1), rtol=1e-4, atol=1e-6
    )
