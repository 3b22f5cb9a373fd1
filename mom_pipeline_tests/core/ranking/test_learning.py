"""What is learnt from later days, and what is not when there is nothing to learn from."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, evaluate_ranking, simulate
from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.ranking.learning import MAX_USERS, Window, enough, learn_weights
from mom_pipeline.core.ranking.score import FEATURES, RankingWeights


def shop(n_users=401, seed=3):
    """Counts, and the days of last events, of which a fifth is newest."""
    rng = np.random.default_rng(seed)
    X = simulate(n_users, 120, 6, items_per_user=14, seed=seed)[1]
    days = X.astype(float)
    days.data = rng.integers(100, 160, X.nnz).astype(float)
    return X, days


@pytest.fixture(scope="module")
def window():
    return Window.newest(*shop())


def test_what_is_learnt_is_better_where_it_was_learnt(window):
    learnt = learn_weights([window])
    assert learnt.n_users > 100
    assert learnt.ndcg > learnt.ndcg_stated > 0
    assert not learnt.kept


def test_what_is_learnt_is_better_on_what_was_hidden_from_the_fit():
    X = simulate(2000, 150, 5, items_per_user=15, seed=1)[1]
    window = Window.hiding(X, np.random.default_rng(0))
    assert window.later.nnz == pytest.approx(X.nnz / 5, rel=0.2)
    assert not window.X.multiply(window.later).nnz
    model = MethodOfMoments(5).fit(window.X)
    stated = MethodOfMoments(5, ranking_weights=RankingWeights()).fit(window.X)
    ours, theirs = (
        evaluate_ranking(one.recommend(window.X)[0], window.later, [20]).ndcg[20]
        for one in (model, stated)
    )
    assert ours > theirs


def test_without_days_length_adds_half_of_what_is_learnt(window):
    """Of a penalty beyond all evidence, so that what is learnt is what is stated."""
    hidden = Window.hiding(window.X, np.random.default_rng(0))
    stated = RankingWeights(pairs=(2.0, 0.4), ease=(1.0, -0.2))
    parts = ("pairs", "ease", "users")

    def learnt(one, **options):
        found = learn_weights([one], stated=stated, penalty=1e12, **options).weights
        return np.array([getattr(found, name) for name in parts])

    as_stated = np.array([getattr(stated, name) for name in parts])
    np.testing.assert_allclose(learnt(hidden), as_stated * [1, 0.5], atol=1e-6)
    np.testing.assert_allclose(learnt(hidden, fixed=parts), as_stated)
    np.testing.assert_allclose(learnt(window), as_stated, atol=1e-6)


@pytest.mark.parametrize(
    ("windows", "wanted"),
    [
        ([(100, 90), (100, 80), (100, 70), (100, 65), (100, 60)], 5),
        ([(MAX_USERS, 90)] * 5, 3),
        ([(100, 90), (100, 80), (100, 50), (100, 40)], 3),
    ],
)
def test_older_windows_are_looked_at_where_users_are_few_and_the_log_was_as_large(windows, wanted):
    assert [enough(windows[:n]) for n in range(wanted + 1)] == [False] * wanted + [True]


def test_one_person_more_or_less_hardly_changes_the_lists():
    X, days = shop()
    lists = []
    for rows in (np.arange(401), np.arange(400)):
        model = MethodOfMoments(4).fit(X[rows], last_days=days[rows])
        lists.append(model.recommend(X[:400])[0])
    shared = [len(np.intersect1d(a, b)) / 20 for a, b in zip(*lists, strict=True)]
    assert np.mean(shared) >= 0.98


def test_repeats_are_learnt_by_the_same_model():
    X, days = shop()
    later = X.copy()  # everybody takes the same again
    learnt = learn_weights([Window(X, later, days)], exclude_seen=False)
    assert learnt.weights.had[0] > 0
    assert learnt.ndcg > 0.5


def test_earlier_weights_stay_where_they_are_better(window):
    earlier = learn_weights([window]).weights
    against = replace(RankingWeights(), ease=(-9.0, 0.0), pairs=(-9.0, 0.0))
    learnt = learn_weights([window], stated=against, penalty=1e9, earlier=earlier)
    assert learnt.kept
    assert learnt.weights == earlier


def nobody():
    return Window(sparse.csr_array((3, 5)), sparse.csr_array((3, 5)))


def no_later_days():
    return replace(item_of_everybody(), later=sparse.csr_array((40, 6)))


def nobody_with_candidates():
    X = np.ones((10, 5))
    X[:, 4] = 0  # later everybody takes what nobody had
    return Window(sparse.csr_array(X), sparse.csr_array(1 - X))


def constant_features():
    """Every item has as many users, of the same days, as any other."""
    X = sparse.csr_array(np.eye(6).repeat(2, axis=0) + np.roll(np.eye(6), 1, axis=1).repeat(2, 0))
    return Window(X, sparse.csr_array(np.roll(X.toarray(), 2, axis=1)), X)


def one_user():
    X = sparse.csr_array(np.array([[1.0, 1.0, 0.0]]))
    return Window(X, sparse.csr_array(np.array([[0.0, 0.0, 1.0]])))


def item_of_everybody():
    X = np.zeros((40, 6))
    X[:, 0] = 1
    X[np.arange(40), 1 + np.arange(40) % 5] = 1
    return Window(sparse.csr_array(X), sparse.csr_array(np.roll(X, 1, axis=1)))


@pytest.mark.parametrize(
    ("case", "teaches"),
    [
        (nobody, False),
        (no_later_days, False),
        (nobody_with_candidates, False),
        (one_user, False),
        (item_of_everybody, True),
        (constant_features, True),
    ],
)
@pytest.mark.parametrize("penalty", [0.0, 60.0])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_little_to_learn_from_gives_numbers(case, teaches, penalty, exclude_seen):
    learnt = learn_weights([case()], penalty=penalty, exclude_seen=exclude_seen)
    assert (learnt.n_users > 0) == teaches
    assert np.isfinite([learnt.ndcg, learnt.ndcg_stated]).all()
    numbers = np.concatenate([np.ravel(value) for value in astuple(learnt.weights)])
    assert np.isfinite(numbers).all()
    if not teaches:
        assert learnt.weights == RankingWeights()


def test_fixed_weights_and_no_windows_leave_what_is_stated(window):
    assert learn_weights([]).weights == RankingWeights()
    stated = RankingWeights(ease=(7.0, 1.0))
    some = learn_weights([window], stated=stated, fixed=("ease",)).weights
    assert some.ease == pytest.approx((7.0, 1.0))
    everything = learn_weights([window], fixed=FEATURES).weights
    for name in FEATURES:
        assert getattr(everything, name) == pytest.approx(getattr(RankingWeights(), name))
    with pytest.raises(InvalidSetting):
        learn_weights([window], penalty=-1.0)
    with pytest.raises(InvalidInteractions):
        learn_weights([replace(window, later=window.later[:3])])
    assert Window.hiding(sparse.csr_array(np.eye(4)), np.random.default_rng(0)) is None
