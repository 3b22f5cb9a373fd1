import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.ranking import (
    LowPass,
    PairScores,
    RankingWeights,
    ThreeMomentRanking,
    scaled_to_best_unseen,
)
from mom_pipeline.core.ranking_fit import choose_weights, hold_out
from mom_pipeline.core.validation import as_interactions


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def low_pass(X, rng):
    scale = np.maximum((X > 0).sum(axis=0), 1) ** -0.5
    return LowPass(np.linalg.qr(rng.standard_normal((25, 6)))[0], scale)


def test_pair_scores_are_the_formula(X):
    weights = RankingWeights(history_exponent=0.7, candidate_exponent=0.2)
    dense = X.toarray()
    n, c = np.maximum(dense.sum(axis=1), 1), np.maximum((dense > 0).sum(axis=0), 1.0)
    G = dense.T @ (dense / n[:, None])
    expected = (dense * c**-0.7) @ G * c**-0.2
    found = PairScores.of(X).scores(X, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_low_pass_is_the_formula(X, low_pass):
    S = np.diag(low_pass.item_scale)
    V = low_pass.basis[:, :4]
    expected = X.toarray() @ S @ V @ V.T @ np.linalg.inv(S)
    np.testing.assert_allclose(low_pass.scores(X, 4), expected, rtol=1e-9, atol=1e-12)


def test_parts_are_scaled_by_the_best_unseen_item_and_added(X, low_pass):
    weights = RankingWeights(popularity=0.3, pairs=0.7, low_pass=0.5, classes=0.9, low_pass_rank=5)
    pairs = PairScores.of(X)

    def classes(rows):
        return rows @ np.ones((25, 1)) * np.arange(1.0, 26) + 1

    found = ThreeMomentRanking(weights, pairs, low_pass, classes)(X)
    seen = X.toarray() > 0
    expected = np.zeros(X.shape)
    for weight, part in [
        (0.3, np.tile((X > 0).sum(axis=0), (80, 1)).astype(float)),
        (0.7, pairs.scores(X, weights)),
        (0.5, low_pass.scores(X, 5)),
        (0.9, classes(X)),
    ]:
        best = np.where(seen, -np.inf, part).max(axis=1, keepdims=True)
        expected += weight * part / np.where(best > 0, best, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_user_who_has_everything_stays_finite():
    X = as_interactions(np.ones((2, 4)))
    assert np.isfinite(scaled_to_best_unseen(np.ones((2, 4)), X)).all()


def test_hold_out_hides_a_fifth_of_everybody(X):
    split = hold_out(X, np.random.default_rng(0), max_users=30)
    assert len(split.users) == 30
    hidden = np.diff(X.indptr) - np.diff(split.train.indptr)
    sizes = np.diff(X.indptr)
    np.testing.assert_array_equal(
        hidden, np.where(sizes >= 2, np.maximum(1, np.rint(sizes / 5)), 0)
    )
    together = split.train[split.users] + split.test
    np.testing.assert_array_equal(together.toarray(), X[split.users].toarray())
    assert split.train[split.users].multiply(split.test).nnz == 0


def test_nothing_can_be_hidden_of_single_items():
    assert hold_out(as_interactions(np.eye(4)), np.random.default_rng(0)) is None


def test_the_search_turns_to_the_part_that_knows_the_answer(X, low_pass):
    split = hold_out(X, np.random.default_rng(0))
    hidden = np.zeros(X.shape)
    hidden[split.users] = split.test.toarray()
    answers = {row.tobytes(): hidden[u] for u, row in enumerate(split.train.toarray())}

    def oracle(rows):
        return np.array([answers[row.tobytes()] for row in rows.toarray()]) + 1e-3

    knowing = choose_weights(split, low_pass, oracle)
    ignorant = choose_weights(split, low_pass, lambda rows: np.ones(rows.shape))
    assert knowing.weights.classes >= 0.5
    assert knowing.quality > ignorant.quality + 0.2
    assert ignorant.weights.classes == 0.0
    assert knowing.n_users == len(split.users)


@pytest.mark.parametrize("wrong", [{"pairs": -1.0}, {"low_pass": np.nan}, {"classes": np.inf}])
def test_weights_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidSetting, match="zero or more"):
        RankingWeights(**wrong)


def test_a_sparse_history_of_counts_is_weighted_by_its_counts(X):
    once, thrice = (as_interactions(sparse.csr_array(X[[0]] * times)) for times in (1, 3))
    pairs = PairScores.of(X)
    weights = RankingWeights()
    np.testing.assert_allclose(
        pairs.scores(thrice, weights), 3 * pairs.scores(once, weights), rtol=1e-5
    )
