"""Lift: by hand, on clear tastes, and when the tastes are mixed up."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.evaluation.lift import Estimate, Lift, lift, lift_objection
from mom_pipeline.core.moments.users import UsersInMemory

DAYS = 12


@pytest.fixture(scope="module")
def world():
    """Return a model of four components, what it was fitted to, and days of the same users."""
    _, X = simulate(900, 60, 4, seed=3)
    rng = np.random.default_rng(4)
    halves = [sparse.csr_array(X.multiply(rng.random(X.shape) < 0.5)) for _ in range(DAYS)]
    for half in halves:
        half.eliminate_zeros()
    return MethodOfMoments(4, ranking="components").fit(X).fitted, X, halves


@pytest.fixture(scope="module")
def recent(world):
    model, X, days = world
    return [lift(model, UsersInMemory(X), day) for day in days[1:]]


def by_hand(model, given, taken):
    """Return the lift of what users took, one pair after the other."""
    P, means = model.memberships(given), []
    for user in range(taken.shape[0]):
        items = taken.indices[taken.indptr[user] : taken.indptr[user + 1]]
        if len(items) and given.indptr[user + 1] > given.indptr[user]:
            ratios = [
                model.smoothed_item_probs[item] @ P[user] / model.popularity[item] for item in items
            ]
            means.append(np.mean([ratio / (1 + ratio) for ratio in ratios]))
    return np.mean(means) / (1 - np.mean(means)), len(means)


def test_the_lift_is_the_mean_of_the_odds(world):
    model, X, days = world
    result = lift(model, UsersInMemory(X), days[0])
    expected, n_users = by_hand(model, X, days[0])
    assert result.value == pytest.approx(expected, rel=1e-5)
    assert result.n_users == n_users
    assert result.history.n_pairs == days[0].nnz
    assert result.value > 1.2
    assert result.day.value > 1.1


def test_popularity_alone_has_a_lift_of_one(world):
    model, X, days = world
    flat = np.repeat(model.popularity[:, None], 4, axis=1).astype(model.item_probs.dtype)
    result = lift(replace(model, item_probs=flat), UsersInMemory(X), days[0])
    assert result.value == pytest.approx(1, abs=1e-3)


def test_new_users_count_for_the_day_and_new_items_do_not(world):
    model, X, days = world
    known = lift(model, UsersInMemory(X), days[0])
    day = sparse.vstack([days[0], days[1][:50]]).tocsr()
    wider = sparse.csr_array(sparse.hstack([day, np.ones((day.shape[0], 5))]))
    result = lift(model, UsersInMemory(X), wider)
    assert result.history == known.history
    assert result.day.n_users > known.day.n_users


def test_nothing_to_say_of_a_day_without_known_items(world):
    model, X, _ = world
    assert lift(model, UsersInMemory(X), sparse.csr_array((X.shape[0], X.shape[1]))) is None


def test_lifts_are_stored_as_json(recent):
    assert Lift.from_dict(json.loads(json.dumps(recent[0].as_dict()))) == recent[0]


def test_a_usual_day_is_not_objected_to(world, recent):
    model, X, days = world
    assert lift_objection(lift(model, UsersInMemory(X), days[0]), recent) is None


def test_items_of_others_are_objected_to(world, recent):
    """Same users, same popularity, same numbers: only who took what is wrong."""
    model, X, days = world
    mixed = days[0].copy()
    mixed.indices = np.random.default_rng(0).permutation(mixed.indices)
    mixed.sum_duplicates()
    sentence = lift_objection(lift(model, UsersInMemory(X), mixed), recent)
    assert "times as well as popularity" in sentence
    assert "users may have been given the items of others" in sentence


def test_rows_of_others_are_objected_to(world, recent):
    """The rows belong together, but not to these users."""
    model, X, days = world
    moved = days[0][np.roll(np.arange(X.shape[0]), 1)]
    result = lift(model, UsersInMemory(X), moved)
    assert result.day.value == pytest.approx(lift(model, UsersInMemory(X), days[0]).day.value)
    assert lift_objection(result, recent) is not None


def test_few_days_or_users_say_nothing(world, recent):
    model, X, days = world
    moved = lift(model, UsersInMemory(X), days[0][np.roll(np.arange(X.shape[0]), 1)])
    assert lift_objection(moved, recent[:6]) is None
    assert lift_objection(None, recent) is None
    few = Lift(replace(moved.history, n_users=9), Estimate.from_odds(np.empty(0), np.empty(0)))
    assert lift_objection(few, recent) is None
