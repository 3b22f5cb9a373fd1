"""Days of pairs: aged histories, the trend of items, and both inside the ranking."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, RankingWeights
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.ranking.recency import Trend, aged, as_last_days

N, D = 400, 40
WEIGHTS = RankingWeights(
    popularity=0.2, pairs=1.0, ease=0.5, low_pass=0.6, components=0.4, trend=0.7
)


@pytest.fixture(scope="module")
def log():
    """Rows and their days: the second half of the items is new, and taken of late."""
    rng = np.random.default_rng(5)
    taste = rng.integers(0, 4, N)
    chances = np.where(np.arange(D) % 4 == taste[:, None], 0.5, 0.05)
    X = sparse.csr_array((rng.random((N, D)) < chances).astype(float) * rng.integers(1, 4, (N, D)))
    last_days = X.copy()
    late = X.indices >= D // 2
    last_days.data = np.where(late, rng.integers(90, 101, X.nnz), rng.integers(1, 40, X.nnz))
    return X, last_days.astype(float)


@pytest.fixture(scope="module")
def model(log):
    X, last_days = log
    weights = replace(WEIGHTS, history_half_life=20.0)
    return MethodOfMoments(4, ranking_weights=weights, precision="double").fit(
        X, last_days=last_days
    )


def test_a_history_ages_by_its_own_latest_event(log):
    X, last_days = log
    older = aged(X, last_days, 10.0).toarray()
    days, rows = last_days.toarray(), X.toarray()
    for user in range(20):
        taken = rows[user] > 0
        expected = 2.0 ** ((days[user, taken] - days[user].max()) / 10.0)
        np.testing.assert_allclose(older[user, taken], expected, rtol=1e-12)
        assert not older[user, ~taken].any()
    later = last_days.copy()
    later.data = later.data + 7  # a week in which nobody did anything
    np.testing.assert_array_equal(aged(X, later, 10.0).toarray(), older)


def test_the_trend_is_the_share_of_recent_users(log):
    _, last_days = log
    days = last_days.toarray()
    values = Trend.from_rows(last_days, 15.0).relative()
    recent = np.where(days > 0, 2.0 ** ((days - days.max()) / 15.0), 0.0).sum(axis=0)
    users = (days > 0).sum(axis=0)
    expected = (recent + 3 * recent.sum() / users.sum()) / (users + 3)
    np.testing.assert_allclose(values, expected / expected.max(), rtol=1e-12)
    assert values[D // 2 :].min() > 3 * values[: D // 2].max()


def test_scores_are_multiplied_by_the_trend(log, model):
    X, last_days = log
    rows = model.fitted.aged(X, last_days)
    plain = replace(model.fitted, pair_ranking=replace(model.fitted.pair_ranking, trend=None))
    factors = Trend.from_rows(last_days, WEIGHTS.trend_half_life).factors(WEIGHTS.trend)
    expected = plain.scores(rows) * factors
    np.testing.assert_allclose(model.fitted.scores(rows), expected, rtol=1e-5)
    lists, _ = model.recommend(X, 10, last_days=last_days)
    without = plain.best(rows, 10).items
    assert (lists >= D // 2).mean() > 0.1 + (without >= D // 2).mean()


def test_a_saved_model_ranks_alike(log, model, tmp_path):
    X, last_days = log
    model.save(tmp_path / "model.npz")
    again = MethodOfMoments.load(tmp_path / "model.npz")
    for ours, theirs in zip(
        model.recommend(X, 8, last_days=last_days),
        again.recommend(X, 8, last_days=last_days),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_the_trend_is_chosen_where_later_days_follow_it(log):
    """Later on, users take what is new: the choice gives the trend weight, on later days alone."""
    X, last_days = log
    rng = np.random.default_rng(8)
    chances = np.where(np.arange(D) >= D // 2, 0.3, 0.01)
    later = sparse.csr_array((rng.random((N, D)) < chances).astype(float))
    chosen = MethodOfMoments(4).fit(X, held_out=later, last_days=last_days)
    assert chosen.fitted.pair_ranking.weights.trend > 0
    assert chosen.fitted.pair_ranking.trend is not None
    hidden = MethodOfMoments(4).fit(X, last_days=last_days)
    assert hidden.fitted.pair_ranking.weights.trend == 0
    assert hidden.fitted.pair_ranking.trend is None


@pytest.mark.parametrize("name", ["trend_half_life", "history_half_life"])
def test_a_half_life_is_above_zero(name):
    for value in (0.0, -3.0, float("nan"), float("inf")):
        with pytest.raises(InvalidSetting, match=name):
            RankingWeights(**{name: value})


def test_days_must_be_those_of_the_pairs(log):
    X, last_days = log
    with pytest.raises(InvalidInteractions, match="exactly the"):
        as_last_days(last_days[:, ::-1], X)
    with pytest.raises(InvalidInteractions, match="exactly the"):
        MethodOfMoments(4).fit(X, last_days=last_days[:10])
    with pytest.raises(InvalidInteractions, match="negative"):
        as_last_days(-last_days, X)
