"""Boosts, groups and diversity: the lists are those that the definitions give, item by item."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.ranking.explain import BOOST, explain_row
from mom_pipeline.core.ranking.list_rules import ListRules

D, N = 60, 6


@pytest.fixture(scope="module", params=["components", "three-moment"])
def world(request):
    _, X = simulate(200, D, 3, items_per_user=8, seed=2)
    return MethodOfMoments(3, ranking=request.param).fit(X).fitted, X


def by_definition(model, rules, scores, n):
    """MMR under a limit by group, from the scores of all items, with no shortcut."""
    scores = scores.astype(np.float64)
    if model.ranking == "components":
        scores = scores * (1 if rules.boosts is None else rules.boosts)
        likely = scores / scores.max()
    else:
        scores = scores + (0 if rules.boosts is None else np.log(rules.boosts))
        likely = np.exp(scores - scores.max())
    groups = rules.groups.toarray() if rules.max_per_group else np.zeros((D, 1))
    listed = []
    for _ in range(n):
        best, value = None, -np.inf
        for y in np.argsort(-scores, kind="stable"):
            full = (
                rules.max_per_group
                and ((groups[listed].sum(axis=0) >= rules.max_per_group) & (groups[y] > 0)).any()
            )
            if y in listed or full or scores[y] == -np.inf:
                continue
            resemblance = max((model.similar(int(s))[y] for s in listed), default=0.0)
            own = (1 - rules.diversity) * likely[y] - rules.diversity * max(resemblance, 0.0)
            if own > value:
                best, value = int(y), own
        if best is None:
            break
        listed.append(best)
    return listed


@pytest.mark.parametrize(("most", "diversity"), [(0, 0.0), (1, 0.0), (2, 0.4), (0, 0.9), (1, 0.7)])
def test_lists_are_those_of_the_definition(world, most, diversity):
    model, X = world
    rng = np.random.default_rng(0)
    groups = sparse.csr_array((rng.random((D, 4)) < 0.4).astype(np.int64))
    boosts = np.where(rng.random(D) < 0.2, rng.choice([0.2, 3.0], D), 1.0)
    hidden = rng.random(D) < 0.1
    rules = ListRules(hidden, boosts, groups, most, diversity)
    ruled = replace(model, list_rules=rules)
    best = ruled.best(X[:20], N).items
    alone = np.stack([ruled.best(X[[u]], N).items[0] for u in range(20)])
    np.testing.assert_array_equal(best, alone)
    for user in range(20):
        scores = model.scores(X[[user]])[0].copy()
        scores[X[[user]].indices] = -np.inf
        scores[~ruled.candidates] = -np.inf
        expected = by_definition(ruled, rules, scores, N)
        assert best[user][best[user] >= 0].tolist() == expected
    assert not hidden[best[best >= 0]].any()
    popular = ruled.popular(N)[0]
    assert not hidden[popular].any()
    if most:
        assert groups[popular].sum(axis=0).max() <= most


def test_a_boost_is_a_term_of_the_score(world):
    model, X = world
    boosts = np.ones(D)
    item = int(model.best(X[:1], 3).items[0, 1])
    boosts[item] = 2.0
    boosted = replace(model, list_rules=ListRules(boosts=boosts))
    rows = boosted.histories(X[:1])
    why = explain_row(boosted, rows, np.array([item]))
    plain = explain_row(model, rows, np.array([item])).best.scores[0, 0]
    assert why.best.scores[0, 0] - plain == pytest.approx(why.by_part[BOOST][0])
    expected = np.log(2) if model.ranking == "three-moment" else plain
    assert why.by_part[BOOST][0] == pytest.approx(expected, rel=1e-4)
    best = boosted.best(X[:1], 3)
    [place] = np.flatnonzero(best.items[0] == item)
    assert best.scores[0, place] == pytest.approx(why.best.scores[0, 0], rel=1e-4)
