"""Lists by all parts, of many users and of one, where few of the items' factors are read.

They are those of the whole catalogue: two items whose scores differ by rounding may change places,
and where all sums are exact the lists are equal to the letter.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.ranking import factored
from mom_pipeline.core.ranking.bounded import ExactTop
from mom_pipeline.core.ranking.low_pass import LowPass
from mom_pipeline.core.ranking.parts import Components, Histories, Popularity
from mom_pipeline.core.ranking.score import RankingWeights, Score
from mom_pipeline.core.ranking.topn import brute_force

N, D, FIRST = 400, 3_000, 128
ALL = RankingWeights(popularity=0.2, ease=0.5, low_pass=0.5, components=0.3, own=0.1)


@pytest.fixture(autouse=True)
def small_heads(monkeypatch):
    """Several heads, and blocks of a few users, on a small catalogue."""
    monkeypatch.setattr(factored, "_FIRST_ITEMS", FIRST)
    monkeypatch.setattr(factored, "_LEAST_SAVED", 1)
    monkeypatch.setattr(factored, "_USERS_PER_BLOCK", 50)
    monkeypatch.setattr(factored, "_SCORES_IN_CACHE", 7 * D)


@pytest.fixture(scope="module")
def X():
    """Rows of sparse histories; two users have taken nothing, one a quarter of all."""
    rows = simulate(N, D, 4, items_per_user=8, seed=0, zipf_exponent=1.2)[1].tolil()
    rows[[3, 200]] = 0
    rows[11, ::4] = 1
    return sparse.csr_array(rows.tocsr().astype(np.float32))


@pytest.fixture(scope="module")
def model(X):
    taken = X[np.flatnonzero(np.diff(X.indptr))]
    return MethodOfMoments(4, ranking="three-moment", ranking_weights=ALL).fit(taken).fitted


def score_with(model, **weights):
    w = replace(ALL, **weights)
    return replace(model.pair_ranking, weights=w).score(model.item_probs)


_ROUNDING = 5e-6


def top_of(model, score):
    return ExactTop(score, model.candidates)


def assert_same_lists(best, score, rows, n, *, exclude_seen=True, candidates=None):
    def scorer(X):
        scores = score(Histories(X, rows.posterior))[0]
        if candidates is not None:
            scores[:, ~candidates] = -np.inf
        return scores

    items, values = brute_force(rows.X, scorer, n, exclude_seen=exclude_seen)
    np.testing.assert_array_equal(best.items < 0, items < 0)
    # Sums in single precision, in another order on every processor: rounding is that of a user's
    # largest score, and items that it makes level may be swapped.
    rounding = _ROUNDING * np.abs(values).max(axis=1)
    assert (np.abs(best.scores - values) <= rounding[:, None]).all()
    users, positions = np.nonzero(best.items != items)
    swapped = scorer(rows.X)[users, best.items[users, positions]]
    assert (np.abs(swapped - values[users, positions]) <= rounding[users]).all()
    for own in best.items:
        assert len(np.unique(own[own >= 0])) == (own >= 0).sum()
    _, factors = score(rows)
    assert best.factors.keys() == factors.keys()
    for name, factor in factors.items():
        np.testing.assert_allclose(best.factors[name], factor, rtol=3e-5)


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"popularity": 0.0, "ease": 0.0, "components": 0.0, "own": 0.0},
        {"popularity": 0.0, "low_pass": 0.0},
        {"popularity": 0.0, "pairs": 0.0, "ease": 0.0, "own": 0.0},
        {"low_pass": 20.0, "low_pass_ridge": 3.0},
    ],
    ids=["all parts", "pairs and low-pass", "no low-pass", "no base", "mostly low-pass"],
)
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_of_many_users_are_those_of_the_whole_catalogue(model, X, weights, exclude_seen):
    score, rows = score_with(model, **weights), model.histories(X)
    best = top_of(model, score).best(rows, 10, exclude_seen=exclude_seen)
    candidates = model.candidates
    assert_same_lists(best, score, rows, 10, exclude_seen=exclude_seen, candidates=candidates)


def test_the_trend_of_the_items_counts(model, X, rng):
    trend = rng.uniform(0.0, 40.0, D).astype(np.float32)
    score, rows = replace(score_with(model, low_pass=4.0), trend=trend), model.histories(X)
    best = top_of(model, score).best(rows, 10)
    assert_same_lists(best, score, rows, 10, candidates=model.candidates)


@pytest.mark.parametrize("share", [0.5, 0.002])
def test_only_candidates_are_listed_and_lists_may_be_short(model, X, rng, share):
    score, rows = score_with(model), model.histories(X)
    only = rng.random(D) < share
    top = top_of(model, score)
    top.prepare()
    best = top.among(only).best(rows, 10)
    assert_same_lists(best, score, rows, 10, candidates=only & model.candidates)
    assert (best.items[:, -1] < 0).any() == (share < 0.1)


@pytest.mark.parametrize("n", [1, 60, 700])
def test_lists_of_any_length(model, X, n):
    """The longest are longer than any head."""
    score, rows = score_with(model), model.histories(X)
    best = top_of(model, score).best(rows, n)
    assert_same_lists(best, score, rows, n, candidates=model.candidates)


def test_one_component_and_double_precision(model, X, rng):
    O = rng.dirichlet(np.full(D, 0.05))[:, None]
    rows = Histories(X, lambda rows: np.ones((rows.shape[0], 1)))
    pairs = score_with(model, low_pass=0.0, components=0.0, ease=0.0)
    score = Score((*pairs.parts, (Components(O), 0.7)))
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 10)
    assert_same_lists(best, score, rows, 10)


def test_a_user_alone_gets_the_list_that_he_gets_among_many(model, X):
    score, rows = score_with(model), model.histories(X, model.memberships(X))
    top = top_of(model, score)
    best = top.best(rows, 10)
    for user in (0, 3, 250, N - 1):
        own = top.best(rows.block(slice(user, user + 1)), 10)
        np.testing.assert_allclose(own.scores[0], best.scores[user], rtol=3e-5)
    assert top.best(rows.block(slice(0)), 10).items.shape == (0, 10)


def random_rows(rng, n_users=60):
    return Histories(sparse.csr_array((rng.random((n_users, D)) < 0.002).astype(np.float32)), None)


def score_of_whole_numbers(distinct, rng):
    """Items of few different rows of whole numbers, scattered: every sum is exact."""
    basis = rng.integers(-3, 4, size=(distinct, 5)) * (rng.random((distinct, 1)) < 0.5)
    kinds = rng.integers(0, distinct, D)
    part = LowPass(basis[kinds].astype(np.float32), np.ones(D), np.ones(5))
    return Score(((part, 1.0),))


@pytest.mark.parametrize("distinct", [40, 2_000])
def test_ties_go_to_the_lower_position(distinct, rng):
    score, rows = score_of_whole_numbers(distinct, rng), random_rows(rng)
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 20)
    items, values = brute_force(rows.X, lambda X: score(Histories(X, None))[0], 20)
    np.testing.assert_array_equal(best.items, items)
    np.testing.assert_array_equal(best.scores, values)


def steep_low_pass(rng, skew):
    """A low-pass part whose rows fall as rank^-skew, at random positions."""
    lengths = rng.permutation(np.arange(1.0, D + 1) ** -skew)
    basis = (lengths[:, None] * rng.normal(size=(D, 8))).astype(np.float32)
    return LowPass(basis, rng.uniform(0.5, 2.0, D), np.ones(8))


def test_the_trend_lifts_items_outside_of_the_heads_too(rng):
    """The bound of an item and that of all of them are of what the trend makes of it."""
    trend = rng.uniform(20.0, 40.0, D).astype(np.float32)
    components = Components(rng.gamma(0.05, size=(D, 3)))
    rows = Histories(random_rows(rng).X, lambda X: rng.dirichlet(np.ones(3), X.shape[0]))
    rows = replace(rows, known=rows.memberships)
    parts = ((steep_low_pass(rng, 0.7), 1.0), (components, 1.0))
    score = Score(parts, trend=trend)
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 10)
    expected, _ = score(rows)
    expected[rows.seen] = -np.inf
    np.testing.assert_allclose(best.scores, -np.sort(-expected, axis=1)[:, :10], rtol=3e-5)


def list_of_one(users, lengths, trend=None):
    """The best 20 by popularity and a part of rank one; the items of its head have no users.

    users, lengths: of the items 1 to 40.
    """
    users, lengths = (np.append(own, np.zeros(D - 40)) for own in (users, lengths))
    users, lengths = np.roll(users, 1), np.roll(lengths, 1)
    lengths[[0, *range(1_000, 999 + FIRST)]] = 1.0
    low_pass = LowPass(lengths[:, None].astype(np.float32), np.ones(D), np.ones(1))
    X = sparse.csr_array(([1.0], ([0], [0])), shape=(1, D))
    score = Score(((Popularity(users), 1.0), (low_pass, 0.5)), trend=trend)
    return ExactTop(score, np.ones(D, dtype=bool)).best(Histories(X, None), 20).items[0]


def test_what_looks_best_may_fall_behind_what_does_not():
    items = list_of_one(np.repeat([1.0, 0.65], 20), np.repeat([-0.6, 0.6], 20))
    np.testing.assert_array_equal(items, np.arange(21, 41))


def test_what_is_lifted_together_with_its_trend_is_read():
    trend = np.full(D, 10.0, dtype=np.float32)
    items = list_of_one(np.repeat([1.0, 0.9], 20), np.repeat([0.0, 0.6], 20), trend)
    np.testing.assert_array_equal(items, np.arange(21, 41))


def test_a_short_list_holds_items_below_zero(rng):
    score, rows = Score(((steep_low_pass(rng, 1.5), 1.0),)), random_rows(rng)
    only = rng.random(D) < 0.002
    best = ExactTop(score, only).best(rows, 10)
    assert best.scores.min() < 0
    assert_same_lists(best, score, rows, 10, candidates=only)


@pytest.fixture
def read(monkeypatch):
    """How many products of a user and an item are computed."""
    counts = []
    products = LowPass.products

    def counted(part, a, items=None):
        result = products(part, a, items)
        counts.append(result.size)
        return result

    monkeypatch.setattr(LowPass, "products", counted)
    return counts


def test_most_items_are_not_read(model, X, rng, read):
    """The two parts agree on what is good, as pairs and their low-pass part do."""
    pairs = score_with(model, low_pass=0.0, components=0.0, ease=0.0, popularity=0.0).parts
    low_pass = steep_low_pass(rng, 1.5)
    score = Score((*pairs, (replace(low_pass, basis=np.abs(low_pass.basis)), 0.5)))
    rows = model.histories(X[np.diff(X.indptr) > 0])
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 10)
    share = sum(read) / (rows.X.shape[0] * D)
    assert_same_lists(best, score, rows, 10)
    assert FIRST / D <= share < 0.15


def test_items_all_alike_are_hardly_read_twice(rng, read):
    """Heads settle nobody: after some users the others do not try them."""
    rows, directions = random_rows(rng, 400), rng.normal(size=(D, 8)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    score = Score(((LowPass(directions, np.ones(D), np.ones(8)), 1.0),))
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 10)
    share = sum(read) / (400 * D)
    assert_same_lists(best, score, rows, 10)
    assert 0.9 < share < 1.1


@pytest.mark.parametrize("saves", [True, False])
def test_the_whole_catalogue_is_read_where_a_head_saves_too_little(rng, monkeypatch, read, saves):
    score = Score(((steep_low_pass(rng, 1.5), 1.0),))
    monkeypatch.setattr(factored, "_LEAST_SAVED", 8 * (D - FIRST) + (not saves))
    rows = random_rows(rng)
    best = ExactTop(score, np.ones(D, dtype=bool)).best(rows, 10)
    assert (sum(read) < 60 * D) == saves
    assert_same_lists(best, score, rows, 10)


@pytest.mark.parametrize("n_items", [4 * FIRST - 1, 4 * FIRST])
def test_a_head_is_a_small_share_of_the_items(rng, n_items):
    part = LowPass(np.ones((n_items, 3), np.float32), np.ones(n_items), np.ones(3))
    bounded = factored.BoundedFactors.from_score(Score(((part, 1.0),)), n_items)
    assert (bounded is not None) == (n_items == 4 * FIRST)


def test_the_share_done_rises_to_one(model, X):
    shares = []
    score = score_with(model)
    top_of(model, score).best(model.histories(X), 10, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1
