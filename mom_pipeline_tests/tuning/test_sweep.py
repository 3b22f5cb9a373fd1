from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.evaluation.backtest import backtest
from mom_pipeline.core.interactions import as_binary
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.choose import given_split, hold_out
from mom_pipeline.core.ranking.lists import HistoryOf
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.settings import ModelSettings
from mom_pipeline.tuning.sweep import Sweep, run_sweep
from mom_pipeline.tuning.validation import Trial, ValidationDays

N, D, K = 1200, 60, 4


@pytest.fixture(scope="module")
def split():
    X = simulate(N, D, K, items_per_user=12, seed=3)[1]
    held_out = hold_out(X, np.random.default_rng(0), max_users=N)
    hidden = sparse.csr_array(X - held_out.train)
    hidden.eliminate_zeros()
    return days_of(held_out.train, hidden)


def days_of(train, test):
    """The days of a log, on which every pair is as old as any other."""
    return ValidationDays.from_rows(date(2024, 3, 1), train, as_binary(train), test)


@pytest.fixture(scope="module")
def swept(split):
    model = ModelSettings(n_components=1, ranking="three-moment")
    said = []
    sweep = run_sweep(
        split, model, RankingWeights(), wanted=[2, 4, 8], progress=lambda *step: said.append(step)
    )
    return sweep, said


def test_the_true_number_of_components_is_chosen(swept):
    sweep, said = swept
    components = [t for t in sweep.trials if t.ranking_weights is None]
    assert {t.model.n_components for t in components} == {1, 2, 4, 8}
    assert len({tuple(t.settings().items()) for t in sweep.trials}) == len(sweep.trials)
    assert max(components, key=lambda t: t.map).model.n_components == K
    assert sweep.choice.map == max(t.map for t in sweep.trials) > 2 * sweep.popularity
    shares = [share for _, share in said]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1


def test_a_trial_is_what_a_fit_of_these_settings_gives(swept, split):
    sweep, _ = swept
    train, test = split.train, split.test
    trial = next(
        t
        for t in sweep.trials
        if (t.model.n_components, t.model.estimator, t.model.rows, t.model.personalization)
        == (4, "unbiased", "counts", "tempered")
    )
    alone = MethodOfMoments(4, "unbiased", "tempered", ranking="components").fit(train)
    found = backtest(HistoryOf(alone.fitted), UsersInMemory(train), test, (20,))
    assert trial.map == pytest.approx(found.model.map[20], rel=1e-9)
    assert sweep.popularity == found.popularity.map[20]
    assert sweep.n_users == found.model.n_users


def test_the_present_settings_are_tried_as_they_are(swept):
    sweep, _ = swept
    assert sweep.present.settings()["model.n_components"] == 1
    assert sweep.present.settings()["model.ranking"] == "three-moment"
    assert sweep.present.ranking_weights == RankingWeights()
    assert any(trial is sweep.present for trial in sweep.trials)


def test_present_settings_of_the_grid_are_listed_once(split):
    sweep = run_sweep(split, ModelSettings(n_components=2), RankingWeights(), wanted=[2])
    assert sum(trial is sweep.present for trial in sweep.trials) == 1
    assert len({tuple(t.settings().items()) for t in sweep.trials}) == len(sweep.trials)


def test_no_change_for_a_gain_within_its_error():
    rng = np.random.default_rng(0)
    ap = rng.uniform(0, 1, 100)
    noise = rng.normal(0, 0.1, 100)

    def trial(k, values):
        return Trial(ModelSettings(n_components=k), None, float(values.mean()), 0.0, values)

    present = trial(1, ap)
    slight = trial(2, ap + noise - noise.mean() + 0.001)
    clear = trial(3, ap + noise - noise.mean() + 0.1)
    assert Sweep((present, slight), present, 0.0, 100, ()).choice is present
    assert Sweep((present, slight, clear), present, 0.0, 100, ()).choice is clear
    assert Sweep((slight,), None, 0.0, 100, ()).choice is slight


def test_eight_thousand_users_are_asked_where_there_are_so_many():
    """On later days; what is hidden has to promise more than chance does, and asks fewer."""
    rng = np.random.default_rng(0)
    had, took = (sparse.csr_array(np.tile(row, (8_100, 1))) for row in ([1.0, 1, 0], [0.0, 0, 1]))
    assert days_of(had, took).n_users == 8_000
    assert len(given_split(had, took, rng).users) == 8_000
    assert len(hold_out(had, rng).users) == 3_000


def test_nothing_to_find(split):
    with pytest.raises(InvalidInteractions, match="use more days"):
        days_of(split.train, split.train)
    with pytest.raises(InvalidInteractions, match="choose smaller ones"):
        run_sweep(split, ModelSettings(n_components=500), RankingWeights(), wanted=[400])


def test_what_is_fixed_is_not_tried(split):
    fixed = (
        *("model.estimator", "model.rows", "model.n_components", "model.personalization"),
        "ranking.ease",
    )
    model, weights = ModelSettings(n_components=3, estimator="paper"), RankingWeights(ease=0.25)
    sweep = run_sweep(split, model, weights, fixed=fixed)
    tried = {
        (t.model.n_components, t.model.estimator, t.model.rows, t.model.personalization)
        for t in sweep.trials
    }
    assert tried == {(3, "paper", "binary", "em")}
    assert {t.ranking_weights.ease for t in sweep.trials if t.ranking_weights} == {0.25}
    assert len([t for t in sweep.trials if t.ranking_weights]) == 2
    alone = run_sweep(
        split, replace(model, ranking="components"), weights, fixed=("model.ranking",)
    )
    assert {t.model.ranking for t in alone.trials} == {"components"}


def test_rows_are_chosen_where_counts_mislead(split):
    """Some items are taken again and again, whoever takes them: counts tell of these alone."""
    train = split.train.copy()
    train.data[train.indices % 5 == 0] *= 30
    days = ValidationDays.from_rows(split.until, train, split.last_days, split.test)
    fixed = ("model.estimator", "model.n_components", "model.personalization", "model.ranking")
    model = ModelSettings(n_components=4, rows="counts", ranking="components")
    sweep = run_sweep(days, model, RankingWeights(), fixed=fixed)
    assert {t.model.rows for t in sweep.trials} == {"binary", "log", "counts"}
    assert sweep.present.model.rows == "counts"
    assert sweep.choice.model.rows == "binary"
    assert sweep.choice.settings()["model.rows"] == "binary"
    once = days_of(as_binary(train), split.test)
    assert {t.model.rows for t in run_sweep(once, model, RankingWeights(), fixed=fixed).trials} == {
        "counts"
    }


def test_repeats_are_asked_for_where_lists_may_hold_them(split):
    """Later on, users take what they had: the choice gives their own items weight."""
    days = ValidationDays.from_rows(
        split.until, split.train, split.last_days, split.train, exclude_seen=False
    )
    fixed = ("model.estimator", "model.n_components", "model.personalization")
    sweep = run_sweep(days, ModelSettings(n_components=3), RankingWeights(), fixed=fixed)
    best = sweep.choice_of("three-moment")
    assert best.ranking_weights.own > 0
    assert best.recall > 0.9
    new = run_sweep(split, ModelSettings(n_components=3), RankingWeights(), fixed=fixed)
    assert {t.ranking_weights.own for t in new.trials if t.ranking_weights} == {0.0}


def test_what_does_not_fit_into_the_time_is_named(split):
    sweep = run_sweep(split, ModelSettings(n_components=4), RankingWeights(), budget_seconds=1e-9)
    assert {t.model.n_components for t in sweep.trials} == {4}
    assert {t.model.estimator for t in sweep.trials} == {"balanced"}
    said = "; ".join(sweep.skipped)
    assert "no time was left for 'paper' of binary rows" in said
    assert "no time was left for the weights of the ranking" in said
