import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.comparison.methods import item_knn
from mom_pipeline.comparison.methods.item_knn import fit_item_knn, largest_of_rows, similarities


def brute_force(X, k, shrinkage, a, b):
    """Every pair of columns in turn, then the k largest of each column."""
    D = X.shape[1]
    S = np.zeros((D, D))
    for h in range(D):
        for y in range(D):
            if h != y:
                norm = (X[:, h] @ X[:, h]) ** a * (X[:, y] @ X[:, y]) ** b
                S[h, y] = X[:, h] @ X[:, y] / (norm + shrinkage)
    for y in range(D):
        order = np.argsort(-S[:, y], kind="stable")
        S[order[k:], y] = 0
    return S


@pytest.fixture
def many(rng):
    return sparse.csr_array(rng.poisson(0.15, size=(60, 40)).astype(float))


@pytest.mark.parametrize(("k", "shrinkage", "a", "b"), [(40, 0, 0.5, 0.5), (5, 2.0, 0.6, 0.3)])
@pytest.mark.parametrize("pairs_per_block", [50, 4_000_000])
def test_similarities_equal_brute_force(many, k, shrinkage, a, b, pairs_per_block, monkeypatch):
    monkeypatch.setattr(item_knn, "_PAIRS_PER_BLOCK", pairs_per_block)
    S = similarities(many, k, shrinkage=shrinkage, history_exponent=a, candidate_exponent=b)
    expected = brute_force(many.toarray(), k, shrinkage, a, b)
    np.testing.assert_allclose(S.toarray(), expected, rtol=1e-12)
    assert (S.toarray() > 0).sum(axis=0).max() <= k


def test_scores_add_up_over_the_history(many):
    fitted = fit_item_knn(many, {"neighbours": 7, "values": "counts"}, 0)
    expected = many.toarray() @ brute_force(many.toarray(), 7, 0, 0.5, 0.5)
    np.testing.assert_allclose(fitted.scores(many), expected, rtol=1e-12)


def test_the_cosine_of_two_items_by_hand():
    X = sparse.csr_array(np.array([[1.0, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]]))
    scores = fit_item_knn(X, {}, 0).scores(sparse.csr_array([[0.0, 1, 0]]))
    np.testing.assert_allclose(scores, [[2 / np.sqrt(4 * 2), 0, 0]])


def test_an_item_nobody_took_has_no_neighbours():
    X = sparse.csr_array(np.array([[1.0, 1, 0], [1, 1, 0]]))
    scores = fit_item_knn(X, {}, 0).scores(X)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores[:, 2], 0)


def test_ties_go_to_the_lower_position():
    kept = largest_of_rows(sparse.csr_array(np.array([[1.0, 2, 2, 2, 0]])), 2)
    np.testing.assert_array_equal(kept.toarray(), [[0, 2, 2, 0, 0]])
