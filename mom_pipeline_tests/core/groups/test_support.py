"""How many groups there are, and how sure each is, against a known truth."""

import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.evaluation.stability import split_half
from mom_pipeline.core.groups.hashed import N_GROUPS, HashedSums, hash_groups
from mom_pipeline.core.groups.intervals import chance_agreement, shown_groups, standard_errors
from mom_pipeline.core.groups.support import (
    SomeUsers,
    SupportCurve,
    support_curve,
    supported_groups,
)
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, advance, width_for_days
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory, in_first_half
from mom_pipeline.engine.shards import write_shards
from mom_pipeline.engine.users import LocalEngine, ShardedUsers


@pytest.mark.parametrize("n_groups", [8, 16, 32])
def test_as_many_groups_are_found_as_there_are(n_groups):
    _, X = simulate(12_000, 600, n_groups, seed=0)
    assert abs(supported_groups(UsersInMemory(X)) - n_groups) <= 2


def test_few_users_support_fewer_and_the_curve_says_what_twice_as_many_bring():
    _, X = simulate(4_000, 600, 32, seed=0)
    half, all_of_them = (support_curve(UsersInMemory(X[:n])) for n in (2_000, 4_000))
    assert all_of_them.groups[0] < all_of_them.groups[-1] < 32
    assert abs(half.of_twice - all_of_them.groups[-1]) <= 4
    assert all_of_them.users[-1] == 4_000
    assert SupportCurve((1, 2, 4, 8), (2, 5, 10, 13), 64).of_twice == 16


def test_there_is_no_group_where_everybody_draws_alike():
    _, X = simulate(3_000, 300, 1, seed=4)
    assert supported_groups(UsersInMemory(X)) == 1
    assert supported_groups(UsersInMemory(X[:2] * 0)) == 0


def test_the_same_over_shards(tmp_path):
    _, X = simulate(2_000, 200, 5, seed=1)
    shards = write_shards(X, f"file://{tmp_path}/shards", n_shards=3)
    sharded = ShardedUsers(LocalEngine(), shards)
    assert support_curve(sharded).groups == support_curve(UsersInMemory(X)).groups


@pytest.fixture(scope="module", params=["unbiased", "balanced"])
def day(request):
    truth, X = simulate(12_000, 300, 5, seed=6)
    estimator = Estimator.from_name(request.param)
    settings = MomentSettings(estimator, 5, width_for_days(5), halves=True)
    step = advance(X, None, "", settings)
    found = decompose(step.anchor, step.sums, DecomposeSettings(5))
    hashed = HashedSums.from_users(UsersInMemory(X), step.anchor, step.sums.first.item_users)
    return truth, X, step, found, hashed


def test_hash_groups_add_up_to_everyone_and_the_halves_are_sixteen_of_them(day):
    _, X, step, _, hashed = day
    users = np.arange(X.shape[0])
    np.testing.assert_array_equal(hash_groups(users) >= 16, in_first_half(users))
    everyone, half = hashed.of(np.arange(N_GROUPS)), hashed.of(np.arange(16, 32))
    for ours, theirs in ((everyone, step.sums), (half, step.sums.half)):
        np.testing.assert_allclose(ours.pairs, theirs.pairs, atol=1e-9 * np.abs(ours.pairs).max())
        scale = np.abs(ours.triples).max()
        np.testing.assert_allclose(ours.triples, theirs.triples, atol=1e-9 * scale)
        assert ours.first.n_users == theirs.first.n_users
        assert ours.first.triple_weight == pytest.approx(theirs.first.triple_weight)


def test_changed_users_alone_bring_the_sums_up_to_date(day):
    _, X, step, _, hashed = day
    changed = np.array([3, 7, 4_000])
    now = X.tolil()
    now[changed] = X[[1, 2, 5]].toarray()
    now = now.tocsr()
    updated = hashed.update(X[changed], now[changed], np.tile(changed, 2), step.anchor)
    anew = HashedSums.from_rows(now, np.arange(X.shape[0]), step.anchor, hashed.items)
    for name, array in updated.as_arrays().items():
        expected = anew.as_arrays()[name]
        np.testing.assert_allclose(array, expected, atol=1e-9 * np.abs(expected).max())
    again = HashedSums.from_arrays(updated.as_arrays())
    np.testing.assert_array_equal(again.triples, updated.triples)


def test_the_truth_lies_within_two_standard_errors(day):
    truth, _, step, found, hashed = day
    if step.anchor.estimator.name != "unbiased":
        pytest.skip("what biases an estimator is in no standard error")
    errors = standard_errors(hashed, found.in_span)
    ours, true = match_columns(found.item_probs, truth.item_probs)
    off = (found.weights[ours] - truth.weights[true]) / errors.weights[ours]
    assert np.abs(off).max() < 3.5
    O = truth.item_probs[errors.items][:, true]
    often = O > 0.01
    z = (found.item_probs[errors.items][:, ours] - O)[often] / errors.item_probs[:, ours][often]
    assert 0.88 < (np.abs(z) < 2).mean() < 0.995
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.3


def test_the_estimate_without_a_group_is_that_of_a_fit_without_its_users(day):
    _, X, step, found, hashed = day
    without = hash_groups(np.arange(X.shape[0])) != 9
    sums = AnchoredSums.from_rows(X[without], step.anchor)
    subtracted = hashed.of(np.arange(N_GROUPS)) - hashed.of(np.array([9]))
    scale = np.abs(sums.triples).max()
    np.testing.assert_allclose(subtracted.triples, sums.triples, atol=1e-9 * scale)
    assert np.isfinite(standard_errors(hashed, found.in_span).weights).all()


def test_only_what_halves_agree_on_better_than_by_chance_is_shown(day):
    _, _, step, found, _ = day
    agreement = split_half(step.sums, found.in_span, 0).agreement
    chance = chance_agreement(step.sums, found.in_span, 0)
    assert shown_groups(agreement, chance, 5).all()
    assert shown_groups(agreement, chance, 2).sum() == 2
    assert not shown_groups(np.full(5, chance), chance, 5).any()


def test_users_of_some_groups_are_visited_alone():
    _, X = simulate(500, 50, 2)
    some = SomeUsers(UsersInMemory(X), (1, 2))
    assert (
        some.add_up(lambda rows: len(rows.positions))
        == np.isin(hash_groups(np.arange(500)), (1, 2)).sum()
    )
