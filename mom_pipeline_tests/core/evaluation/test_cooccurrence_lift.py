"""Co-occurrence lift: against a loop, on clear tastes, and when the tastes are mixed up."""

import math

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import simulate
from mom_pipeline.core.evaluation import cooccurrence_lift as module
from mom_pipeline.core.evaluation.cooccurrence_lift import NO_LIFT, cooccurrence_lift
from mom_pipeline.core.ranking.learning import Window

SMOOTHING = 5.0


@pytest.fixture(scope="module")
def world():
    """Return histories of four tastes, and a day of the same users that is not in them."""
    window = Window.hiding(simulate(900, 60, 4, seed=3)[1], np.random.default_rng(4))
    return window.X, window.later


def row(X, user):
    return X.indices[X.indptr[user] : X.indptr[user + 1]].tolist()


def odds_by_hand(X, user, taken, given):
    """Return r / (1 + r) of every item taken that somebody else has, one pair after the other."""
    others = [set(row(X, v)) for v in range(X.shape[0]) if v != user and row(X, v)]
    odds = []
    for i in taken:
        users_of_i = [items for items in others if i in items]
        ratios = [
            (SMOOTHING + len(others) * sum(j in items for items in users_of_i) / len(users_of_i))
            / (SMOOTHING + sum(j in items for items in others))
            for j in given
            if j != i and users_of_i
        ]
        if ratios:
            r = np.mean(ratios)
            odds.append(r / (1 + r))
    return odds


def lift_by_hand(odds):
    means = [np.mean(of_user) for of_user in odds if of_user]
    m = np.mean(means)
    return m / (1 - m), len(means), np.std(means) / math.sqrt(len(means)) / (m * (1 - m))


def test_the_lifts_are_those_of_a_loop_over_users_and_pairs(rng):
    X, day = (
        sparse.csr_array((rng.random(size) < density).astype(float))
        for size, density in (((40, 12), 0.3), ((40, 12), 0.25))
    )
    by_history, by_half = [], []
    for user in range(40):
        history = row(X, user)
        taken = [i for i in row(day, user) if i in X.indices] if history else []
        by_history.append(odds_by_hand(X, user, taken, history))
        halves = taken[::2], taken[1::2]
        pairs = (odds_by_hand(X, user, a, b) for a, b in (halves, halves[::-1]))
        by_half.append([odds for half in pairs for odds in half])
    found = cooccurrence_lift(X, day)
    assert found[0] == pytest.approx(lift_by_hand(by_history))
    assert found[1] == pytest.approx(lift_by_hand(by_half))


def test_what_is_mixed_up_has_no_lift(world):
    """Items given to others, and whole rows: those go together, but not with the histories."""
    X, day = world
    usual = cooccurrence_lift(X, day)
    assert min(lift.value for lift in usual) > 1.1
    assert usual[0].n_users == 500
    items, rows = day.copy(), day[np.roll(range(900), 1)]
    items.indices = np.random.default_rng(0).permutation(items.indices)
    items.sum_duplicates()
    lost = [*zip(usual, cooccurrence_lift(X, items), strict=True)]
    history, half = cooccurrence_lift(X, rows)
    for before, found in (*lost, (usual[0], history)):
        assert math.log(found.value) < 0.3 * math.log(before.value)
    assert half.value == pytest.approx(usual[1].value, rel=0.1)


def test_nothing_is_said_of_unknown_users_and_items(world):
    X, day = world
    assert cooccurrence_lift(X, sparse.csr_array(X.shape)) == (NO_LIFT, NO_LIFT)
    without = X.copy()
    without.data[:] = 0
    without.eliminate_zeros()
    assert cooccurrence_lift(without, day) == (NO_LIFT, NO_LIFT)


def test_a_sample_says_the_same_and_is_always_the_same(world, monkeypatch):
    X, day = world
    usual = cooccurrence_lift(X, day)
    for name, most in (("_MOST_USERS", 300), ("_MOST_ITEMS", 15), ("_MOST_COUNTED", 60_000)):
        monkeypatch.setattr(module, name, most)
    sampled = cooccurrence_lift(X, day)
    assert sampled == cooccurrence_lift(X, day)
    assert sampled[0].n_users <= 300
    for whole, part in zip(usual, sampled, strict=True):
        assert part != whole
        assert math.log(part.value) == pytest.approx(math.log(whole.value), abs=4 * part.error)
