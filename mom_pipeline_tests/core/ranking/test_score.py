import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.core.interactions import as_interactions
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.parts import Histories
from mom_pipeline.core.ranking.score import (
    FEATURES,
    RankingWeights,
    best_value,
    ranking_name,
    weights_from,
)


@pytest.fixture
def X(rng):
    return as_interactions(rng.poisson(0.3, size=(80, 25)).astype(float))


@pytest.fixture
def days(X, rng):
    return sparse.csr_array(
        (rng.integers(1, 60, X.nnz).astype(float), X.indices, X.indptr), X.shape
    )


@pytest.fixture
def weights(rng):
    drawn = {name: tuple(rng.normal(size=2)) for name in FEATURES}
    return RankingWeights(**drawn, length_mean=1.5, length_scale=0.7)


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_a_score_is_the_sum_of_its_features(X, days, weights, dated, exclude_seen):
    days = days if dated else None
    score = PairRanking.from_users(UsersInMemory(X, days), weights).score
    names = [part.name for part in score.parts]
    assert names == ["pairs", "ease"] + ([] if dated else ["low_pass"])
    rows = Histories(X, None, days)
    total, bests = score(rows, exclude_seen=exclude_seen)
    items = np.tile(np.arange(25), (80, 1))
    scores = {part.name: part.scores(rows) for part in score.parts}
    z = score.features(rows, items, scores, bests).astype(np.float64)
    length = weights.standardised(rows.lengths)
    own = score.names[-3:]
    expected = np.zeros(X.shape)
    for i, name in enumerate(score.names):
        if name in own and exclude_seen:
            continue
        expected += weights.of(name, length)[:, None] * z[:, :, i]
    # Up to what is the same for all items of a user.
    gap = total - expected
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:, :1], gap.shape), atol=2e-3)


def test_the_best_value_is_that_of_an_unseen_item():
    scores = np.array([[3.0, 2.0, 1.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    seen = (np.array([0, 1]), np.array([0, 0]))
    np.testing.assert_array_equal(best_value(scores, seen), [2.0, 1.0, 1.0])
    np.testing.assert_array_equal(best_value(scores, None), [3.0, 5.0, 1.0])
    almost_none = np.array([[1e-44, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(best_value(almost_none, None), [1.0])


def test_an_item_that_nobody_knows_of_has_finite_features():
    X = as_interactions(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    days = sparse.csr_array((np.array([3.0, 4.0, 9.0]), X.indices, X.indptr), X.shape)
    score = PairRanking.from_users(UsersInMemory(X, days)).score
    assert np.isfinite(score(Histories(X, None, days), exclude_seen=True)[0]).all()


def test_weights_are_two_finite_numbers_each():
    for wrong in ((1.0,), (np.nan, 0.0), (1.0, np.inf)):
        with pytest.raises(InvalidSetting):
            RankingWeights(ease=wrong)
    with pytest.raises(InvalidSetting):
        RankingWeights(length_scale=0.0)
    plain = {"ease": [2.0, 1.0], "length_mean": 3.0}
    assert weights_from(plain) == RankingWeights(ease=(2.0, 1.0), length_mean=3.0)


def test_unknown_rankings_are_refused():
    assert ranking_name("components") == "components"
    with pytest.raises(InvalidSetting):
        ranking_name("four-moment")
