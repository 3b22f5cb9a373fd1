"""Rows taken away from a fitted model, and rows added: the model of what is left."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting, NotFitted
from mom_pipeline.core.interactions import resized
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.core.threads import using_cores

ESTIMATORS = ["paper", "unbiased", "balanced"]


def unfitted(estimator="balanced", **settings):
    return MethodOfMoments(
        5, estimator, "em", ranking="components", anchor_width=13, precision="double", **settings
    )


def assert_same_model(ours, theirs, tolerance=1e-9):
    np.testing.assert_allclose(ours.item_probs, theirs.item_probs, atol=tolerance)
    np.testing.assert_allclose(ours.weights, theirs.weights, atol=tolerance)
    fitted, other = ours.fitted, theirs.fitted
    np.testing.assert_allclose(fitted.popularity, other.popularity, atol=tolerance)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_changed_and_forgotten_users_equal_a_fit_on_what_is_left(counts, estimator, rng):
    """Through the same anchor."""
    changed = rng.choice(counts.shape[0], 300, replace=False)
    now = counts.tolil()
    now[changed] = counts[rng.permutation(changed)].toarray() * 3.0
    now = sparse.csr_array(now)
    model = unfitted(estimator).fit(counts)
    model.update(removed=counts[changed], added=now[changed])
    assert_same_model(model, unfitted(estimator).fit(now, anchor=model.anchor))
    before = model.item_probs.copy()
    model.forget(now[:49]).forget(now[49])  # a single row is a user, too
    assert_same_model(model, unfitted(estimator).fit(now[50:], anchor=model.anchor))
    assert np.abs(model.item_probs - before).max() > 1e-6


@pytest.mark.parametrize("rows", ["binary", "log", "counts"])
def test_updates_read_rows_as_the_fit_does(counts, rows, tmp_path):
    now = counts.copy()
    now.data[: now.indptr[300]] += 2.0
    model = unfitted(rows=rows).fit(counts)
    model.save(tmp_path / "model.npz")
    model = MethodOfMoments.load(tmp_path / "model.npz")
    before = model.item_probs
    model.update(removed=counts[:300], added=now[:300])
    assert_same_model(model, unfitted(rows=rows).fit(now, anchor=model.anchor))
    P = unfitted(rows=rows).fit(now, anchor=model.anchor).transform(now)
    np.testing.assert_allclose(model.transform(now), P, atol=1e-9)
    moved = np.abs(model.item_probs - before).max()
    assert moved < 1e-9 if rows == "binary" else moved > 1e-6


def test_rows_may_be_lists_and_end_before_the_last_item(counts):
    rows = [[2, 1, 1], [1, 0, 3]]
    model, other = unfitted().fit(counts), unfitted().fit(counts)
    model.update(added=rows).forget(rows[0])
    other.update(added=resized(sparse.csr_array(rows[1:]), (1, counts.shape[1])))
    assert_same_model(model, other)


def test_what_cannot_be_updated_says_why(counts):
    with pytest.raises(NotFitted, match="call fit first"):
        unfitted().update(added=counts)
    model = unfitted("unbiased").fit(counts)
    with pytest.raises(InvalidInteractions, match="whole counts"):
        model.update(added=counts[:5] * 0.5)
    with pytest.raises(InvalidInteractions, match="3 events"):
        model.forget(counts)
    with pytest.raises(InvalidInteractions, match="have 301 items, the model knows 300"):
        model.forget(np.ones(301))
    with pytest.raises(InvalidInteractions, match="remove rows as they were when they were added"):
        model.forget(np.ones((counts.shape[0], 300)))
    with pytest.raises(InvalidSetting, match="anchor_width must be at least n_components = 5"):
        MethodOfMoments(5, anchor_width=4)


WEIGHTS = RankingWeights(pairs=(1.0, 0.1), low_pass=(0.4, 0.0), ease=(0.6, -0.1), users=(0.1, 0.0))


def three_moments(weights=WEIGHTS):
    return MethodOfMoments(5, ranking_weights=weights, anchor_width=13, precision="double")


def as_if_fitted(model, X, last_days=None):
    """A fit on what is there now, through what the model's own fit fixed."""
    fresh = three_moments(model.ranking_weights).fit(X, anchor=model.anchor, last_days=last_days)
    kept = model.fitted.pair_ranking
    ranking = replace(fresh.fitted.pair_ranking, low_pass=kept.low_pass)
    fresh._fitted = replace(fresh.fitted, pair_ranking=ranking)
    return fresh


def assert_same_lists(ours, theirs, X, last_days=None):
    lists, others = (one.recommend(X[:200], 10, last_days=last_days) for one in (ours, theirs))
    np.testing.assert_array_equal(lists[0], others[0])
    np.testing.assert_allclose(lists[1], others[1], rtol=1e-5)


def test_three_moments_forget_and_learn_users_exactly(counts, tmp_path):
    X, D = sparse.csr_array(counts[:3000]), counts.shape[1]
    model = three_moments().fit(X[:2500, :280])
    earlier = model.recommend(X[:200, :280], 10)[0]
    model.save(tmp_path / "model.npz")
    model = MethodOfMoments.load(tmp_path / "model.npz")
    model.update(removed=X[:400, :280], added=X[200:400])
    model.update(added=X[2500:]).forget(X[2900:])
    kept = resized(sparse.csr_array(X[400:2500, :280]), (2100, D))
    now = sparse.csr_array(sparse.vstack([kept, X[200:400], X[2500:2900]]))
    fresh = as_if_fitted(model, now)
    pairs, expected = (one.fitted.pair_ranking.counts for one in (model, fresh))
    for name, array in expected.as_arrays().items():
        np.testing.assert_array_equal(pairs.as_arrays()[name], array, err_msg=name)
    assert_same_model(model, fresh)
    assert_same_lists(model, fresh, X)
    assert (model.recommend(X[:200], 10)[0] != earlier).mean() > 0.05


def test_the_trend_is_updated_with_the_days_of_the_pairs(counts, rng):
    X = sparse.csr_array(counts[:2000])
    days = X.copy()
    days.data = rng.integers(700, 760, X.nnz) + 40.0 * (X.indices < 50)
    model = three_moments(replace(WEIGHTS, trend_1=(1.0, 0.2), quiet=(0.3, 0.0)))
    model.fit(X[:1500], last_days=days[:1500])
    model.update(added=X[1500:], added_days=days[1500:]).forget(X[:90], last_days=days[:90])
    fresh = as_if_fitted(model, X[90:], days[90:])
    assert_same_lists(model, fresh, X, days[:200])
    with pytest.raises(InvalidInteractions, match="give the days"):
        model.forget(X[90])
    with pytest.raises(InvalidInteractions, match="last_days must have a day"):
        model.forget(X[90], last_days=days[91])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_any_number_of_threads_gives_the_same_model_to_the_last_digit(estimator):
    _, X = simulate(9_000, 900, 6, items_per_user=9, seed=2)
    assert_same_on_any_number_of_threads(
        lambda: MethodOfMoments(20, estimator, ranking="components").fit(X), X
    )


def test_any_number_of_threads_chooses_the_same_weights_and_the_same_lists():
    _, X = simulate(700, 150, 6, items_per_user=9, seed=2)
    assert_same_on_any_number_of_threads(lambda: MethodOfMoments(8).fit(X), X)


def test_any_number_of_threads_updates_to_the_same_model():
    _, X = simulate(9_000, 900, 6, items_per_user=9, seed=2)
    assert_same_on_any_number_of_threads(
        lambda: unfitted().fit(X).update(removed=X[:3000], added=X[1000:2000]), X
    )


def assert_same_on_any_number_of_threads(fitted, X):
    models = []
    for n in (1, 2, 3):
        with using_cores(n):
            model = fitted()
            models.append((model.item_probs, model.weights, model.transform(X)))
            models[-1] += (*model.recommend(X), model.fitted.scores(X[:99]))
    for others in models[1:]:
        for ours, theirs in zip(models[0], others, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_algorithm_1_is_the_papers_to_the_letter(counts):
    """Steps 1 to 8 written down once more, dense and in the order of the paper."""
    model = MethodOfMoments.algorithm_1(5).fit(counts)  # of counts only which are above 0 matters
    X = (counts > 0).astype(float)
    dense, nnz = X.toarray(), np.diff(X.indptr)
    values, vectors = np.linalg.eigh(dense.T @ dense / (nnz**2).sum())
    W = vectors[:, -5:] / np.sqrt(values[-5:])
    Y = dense @ W
    T = np.einsum("ui,uj,uk->ijk", Y, Y, Y, optimize=True) / (nnz**3).sum()
    lambdas, V = power_method(T)
    mu = W @ np.linalg.inv(W.T @ W) @ V
    O = mu / mu.sum(axis=0)
    order = np.argsort(lambdas)
    raw = np.maximum(O[:, order], 0)
    O = raw / raw.sum(axis=0)
    np.testing.assert_allclose(model.item_probs, O, atol=1e-6)
    pi = lambdas[order] ** -2.0
    np.testing.assert_allclose(model.weights * model.diagnostics["weight_sum"], pi, rtol=1e-6)
    P = np.array([pi * np.prod(np.maximum(O[row > 0], 1e-300), axis=0) for row in dense[:50]])
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(counts[:50]), P, atol=1e-4)
    best = np.where(dense[:50] > 0, -1.0, P @ O.T).max(axis=1)
    np.testing.assert_allclose(model.recommend(counts[:50], 1)[1][:, 0], best, rtol=1e-3)
    assert model.diagnostics["bounds"]["mu_bound"] > 0


def power_method(T, rng=None):
    """The robust tensor power method with deflation, one component after another."""
    rng, T, found = np.random.default_rng(0), T.copy(), []
    for _ in range(len(T)):
        tries = []
        for _ in range(30):
            v = rng.standard_normal(len(T))
            for _ in range(150):
                v = np.einsum("ijk,j,k->i", T, v, v)
                v /= np.linalg.norm(v)
            tries.append((np.einsum("ijk,i,j,k", T, v, v, v), v))
        value, v = max(tries, key=lambda pair: pair[0])
        T -= value * np.einsum("i,j,k->ijk", v, v, v)
        found.append((value, v))
    return np.array([value for value, _ in found]), np.column_stack([v for _, v in found])
