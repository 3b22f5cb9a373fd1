"""Matrices that real logs produce: each works, or is refused in a sentence that helps."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.interactions import as_interactions

ESTIMATORS = ["paper", "unbiased", "balanced"]


def fit_and_check(X, n_components, estimator):
    """Fit, and see that nothing that comes out is NaN or infinite."""
    model = MethodOfMoments(n_components, estimator).fit(X)
    outputs = [model.item_probs, model.weights, model.personalize(X)]
    for ranking in ("components", "three-moment"):
        ids, scores = model.recommend(X, n=3, ranking=ranking)
        outputs += [ids, scores]
    for array in outputs:
        assert np.isfinite(array).all()
    np.testing.assert_allclose(model.item_probs.sum(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(model.personalize(X).sum(axis=1), 1.0, rtol=1e-6)
    return model


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "1 NaN"), (np.inf, "1 NaN or inf"), (-2, "1 negative")]
)
def test_entries_that_are_no_counts(counts, value, message):
    X = counts.copy()
    X.data[5] = value
    with pytest.raises(InvalidInteractions, match=message):
        MethodOfMoments(3).fit(X)


@pytest.mark.parametrize(
    "X",
    [
        sparse.csr_array((5, 4)),
        np.zeros((0, 4)),
        np.zeros((4, 0)),
        "no matrix",
        np.array([["a", "b"]]),
        np.ones((2, 2, 2)),
        None,
        np.eye(3) * (1 + 2j),
        sparse.csr_array(np.eye(3) * (1 + 2j)),
    ],
)
def test_what_is_no_matrix_or_has_no_event(X):
    with pytest.raises(
        InvalidInteractions, match=r"expected|needs at least one event|Complex data"
    ):
        MethodOfMoments(1).fit(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_user(estimator):
    fit_and_check(np.array([[3.0, 1, 0, 2]]), 1, estimator)


def test_every_row_the_same_has_rank_one():
    model = fit_and_check(np.tile([1.0, 1, 0, 1, 1], (30, 1)), 4, "balanced")
    assert model.diagnostics["n_components"] == 1
    assert any("K was lowered" in warning for warning in model.diagnostics["warnings"])


def test_users_too_short_for_the_estimator():
    X = np.kron(np.eye(6), np.ones((3, 1)))
    with pytest.raises(InvalidInteractions, match="3 where draws are distinct"):
        MethodOfMoments(2, "unbiased").fit(X)
    fit_and_check(X, 2, "balanced")
    fit_and_check(X, 2, "paper")


@pytest.mark.parametrize("n_components", [0, -1, 301, 10**9])
def test_number_of_components_out_of_range(counts, n_components):
    with pytest.raises(InvalidSetting, match="between 1 and min"):
        MethodOfMoments(n_components).fit(counts)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_user_with_a_hundred_thousand_items(estimator):
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.zeros(100_000, dtype=int), rng.integers(1, 400, 4000)])
    columns = np.concatenate([np.arange(100_000), rng.integers(0, 200, 4000)])
    X = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(400, 100_000))
    model = MethodOfMoments(3, estimator, ranking="components").fit(X)
    assert np.isfinite(model.item_probs).all()
    bounds = model.diagnostics["bounds"]
    assert bounds["d3s"] > 1e12 if estimator == "paper" else bounds is None
    assert np.isfinite(model.personalize(X)).all()


def test_duplicates_in_the_sparse_structure_add_up(counts):
    raw = sparse.csr_array(counts.shape)
    raw.data, raw.indices = (np.repeat(a, 2) for a in (counts.data / 2, counts.indices))
    raw.indptr = counts.indptr * 2
    assert (as_interactions(raw) != counts).nnz == 0
    assert raw.nnz == 2 * counts.nnz, "the caller's matrix must stay as it was"


@pytest.mark.parametrize("kind", ["csc_matrix", "coo_array", "lil_array", "csr_matrix"])
def test_any_sparse_format_and_integer_type_is_taken(counts, kind):
    X = getattr(sparse, kind)(counts.astype(np.int16))
    np.testing.assert_array_equal(as_interactions(X).toarray(), counts.toarray())


def test_another_number_of_items_is_refused(counts):
    model = MethodOfMoments(3, ranking="components").fit(counts)
    for call in (model.personalize, model.recommend):
        with pytest.raises(InvalidInteractions, match="knows 300 items"):
            call(np.ones((2, 299)))
