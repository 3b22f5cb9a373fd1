"""The list of one user is that of the whole catalogue, though most of it is not read."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.ranking import one_user
from mom_pipeline.core.ranking.bounded import ExactTop
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.one_user import OneUser
from mom_pipeline.core.ranking.parts import ComponentsPart, Histories, Pairs, Popularity
from mom_pipeline.core.ranking.score import Score
from mom_pipeline.core.ranking.topn import hide_seen, top_n

N, D, K, HEAD = 60, 400, 6, 40


@pytest.fixture(autouse=True)
def short_head(monkeypatch):
    monkeypatch.setattr(one_user, "_HEAD_ITEMS", HEAD)


def world(skew):
    """Histories, memberships, parts and a trend; items fall in popularity as rank^-skew."""
    rng = np.random.default_rng(0)
    popularity = rng.permutation(np.arange(1, D + 1) ** -float(skew))
    taken = (rng.random((N, D)) < 8 * popularity / popularity.sum()).astype(float)
    taken[0] = 0.0  # a user without a history
    X = sparse.csr_array(taken)
    O = popularity[:, None] * rng.gamma(0.3, size=(D, K))
    basis = np.sqrt(popularity)[:, None] * rng.standard_normal((D, K))
    low_pass = LowPass(basis.astype(np.float32), np.ones(D), np.arange(K, 0.0, -1), ridge=1.0)
    parts = ((Pairs.from_rows(X), 1.0), (low_pass, 0.4), (ComponentsPart(O / O.sum(0)), 0.7))
    return X, rng.dirichlet(np.full(K, 0.3), size=N), parts, rng.random(D) * 0.9 + 0.1


def by_brute_force(score, rows, n, candidates, exclude_seen):
    scores, factors = score(rows)
    scores[:, ~candidates] = -np.inf
    if exclude_seen:
        hide_seen(scores, rows.X)
    return *top_n(scores, n), factors


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("with_trend", [True, False])
@pytest.mark.parametrize("skew", [0.0, 1.2])
def test_lists_and_factors_are_those_of_the_whole_catalogue(skew, with_trend, exclude_seen):
    X, P, parts, trend = world(skew)
    score = Score(parts, trend=trend.astype(np.float32) if with_trend else None)
    bounded, candidates = OneUser.from_score(score, D), np.arange(D) % 7 > 0
    settled, beyond = 0, 0
    for user in range(N):
        rows = Histories(X[[user]], None, P[[user]])
        items, scores, factors = by_brute_force(score, rows, 9, candidates, exclude_seen)
        best = ExactTop(score, candidates).best(rows, 9, exclude_seen=exclude_seen)
        np.testing.assert_array_equal(best.items, items)
        np.testing.assert_allclose(best.scores, scores, rtol=1e-5)
        for name, factor in factors.items():
            np.testing.assert_allclose(best.factors[name], factor, rtol=1e-5)
        found = bounded.best(rows, 9, candidates, exclude_seen)
        settled += found is not None
        beyond += found is not None and not set(found[0]) <= set(bounded.head)
    assert settled > N / 2 if skew else settled < N / 2
    assert beyond > 5 or not skew  # items outside of the head are found too


def test_short_lists_and_other_rankings():
    X, P, parts, _ = world(1.2)
    rows, few = Histories(X[[3]], None, P[[3]]), np.arange(D) < 5
    best = ExactTop(Score(parts), few).best(rows, 9, exclude_seen=False)
    assert (best.items[0, :5] >= 0).all()
    assert (best.items[0, 5:] == -1).all()
    assert OneUser.from_score(Score(((Popularity(np.ones(D)), 1.0),)), D) is None
    assert OneUser.from_score(Score.from_probs(parts[2][0].item_probs), D) is None
    assert OneUser.from_score(Score(parts), 4 * HEAD - 1) is None
