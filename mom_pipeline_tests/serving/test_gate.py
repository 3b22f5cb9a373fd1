from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.evaluation.metrics import evaluate_ranking
from mom_pipeline.serving.gate import POPULARITY, Backtest, Contest, decide, metrics_of

N = 400


def judged(ours, theirs, rival="2024-03-01-0123456789ab", max_loss=0.05):
    contest = Contest(rival, np.asarray(ours, float), np.asarray(theirs, float), "the same days")
    rng = np.random.default_rng(0)
    return decide(contest, max_loss=max_loss, rng=rng)


@pytest.fixture
def champion():
    return np.random.default_rng(1).uniform(0, 0.4, N)


def test_the_same_model_passes_even_where_no_loss_is_allowed(champion):
    decision = judged(champion, champion, max_loss=0.0)
    assert decision.passed
    assert (decision.difference, decision.low, decision.high) == (0, 0, 0)


def test_a_small_loss_passes_and_a_larger_one_does_not(champion):
    assert judged(0.98 * champion, champion).passed
    worse = judged(0.90 * champion, champion)
    assert not worse.passed
    assert worse.high < -0.05 * champion.mean()
    assert "refused" in worse.words
    assert judged(0.90 * champion, champion, max_loss=0.2).passed


def test_little_evidence_keeps_the_champion(champion):
    noise = np.random.default_rng(2).normal(0, 0.3, N)
    same_on_average = champion + noise - noise.mean()
    few = slice(0, 10)
    assert not judged(same_on_average[few], champion[few]).passed
    many = np.tile(noise - noise.mean(), 40)
    assert judged(np.tile(champion, 40) + many, np.tile(champion, 40)).passed


@pytest.mark.parametrize(
    ("factor", "better"), [(1.05, True), (1, False), (0.99, False), (0.5, False)]
)
def test_the_first_model_passes_and_says_how_it_stands_to_popularity(champion, factor, better):
    decision = judged(factor * champion, champion, POPULARITY)
    assert decision.passed
    assert ("not shown to beat popularity" in decision.words) != better


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_kept_out(champion, bad):
    broken = np.append(2 * champion[1:], bad)
    for pair in ((broken, champion), (champion, broken)):
        assert not judged(*pair).passed
        assert "not finite" in judged(*pair).words


def test_a_version_carries_finite_figures_alone():
    X = np.eye(3)
    metrics = evaluate_ranking(np.arange(3)[:, None], sparse.csr_array(X), (1, 15))
    broken = replace(metrics, ndcg={1: 0.5, 15: np.nan})
    figures = metrics_of(Backtest(broken, metrics, 0))
    assert figures["cutoff"] == 15
    assert figures["popularity_map"] == 1
    assert "ndcg" not in figures
    assert np.isfinite(list(figures.values())).all()
