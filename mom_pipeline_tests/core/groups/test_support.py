"""How many groups there are, and how sure each is, against a known truth."""

import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.algorithm.decomposition import match_columns, unit_columns
from mom_pipeline.core.evaluation.stability import split_half
from mom_pipeline.core.groups.chance import chance_agreement
from mom_pipeline.core.groups.support import (
    N_GROUPS,
    SomeUsers,
    SupportCurve,
    hash_groups,
    support_curve,
    supported_groups,
)
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, advance, fix_anchor, width_for_days
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory, in_first_half
from mom_pipeline.engine.shards import write_shards
from mom_pipeline.engine.users import LocalEngine, ShardedUsers
from mom_pipeline.groups.people import supported


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


def test_halves_are_sixteen_hash_groups_each():
    users = np.arange(5_000)
    np.testing.assert_array_equal(hash_groups(users) >= N_GROUPS // 2, in_first_half(users))
    assert set(hash_groups(users).tolist()) == set(range(N_GROUPS))


def halves_of(X, K):
    """How well two halves agree on K components, what they would by chance, and the components."""
    settings = MomentSettings(Estimator.from_name("unbiased"), K, width_for_days(K), halves=True)
    step = advance(X, None, "", settings)
    found = decompose(step.anchor, step.sums, DecomposeSettings(K))
    agreement = split_half(step.sums, found.in_span, 0).agreement
    return agreement, chance_agreement(step.sums, found.in_span, 0), found


def test_groups_that_are_there_agree_better_than_by_chance():
    truth, X = simulate(12_000, 300, 5, seed=6)
    agreement, chance, _ = halves_of(X, 5)
    assert agreement.min() > 0.95 > chance > 0.3
    agreement, chance, found = halves_of(X, 12)
    shown = supported(agreement.tolist(), 12, chance, supported_groups(UsersInMemory(X)))
    assert len(shown) == 5
    ours, theirs = match_columns(found.item_probs[:, shown], truth.item_probs)
    unit = [
        unit_columns(O) for O in (found.item_probs[:, shown][:, ours], truth.item_probs[:, theirs])
    ]
    assert (unit[0] * unit[1]).sum(axis=0).min() > 0.9


def test_halves_without_groups_agree_no_better_than_by_chance():
    clear = 0
    for seed in range(5):
        _, X = simulate(1_500, 100, 1, seed=seed)
        agreement, chance, _ = halves_of(X, 8)
        clear += int((agreement > chance).sum()) - 1
    assert clear <= 6  # of 35, and the first is popularity


def test_of_halves_that_are_too_small_nothing_is_clear():
    _, X = simulate(4, 30, 2, seed=1)
    X[1:] *= 0
    sums = AnchoredSums.from_rows(
        X,
        step := fix_anchor(UsersInMemory(X), MomentSettings(Estimator.from_name("balanced"), 1, 2)),
        in_half=np.zeros(4, bool),
    )
    assert chance_agreement(sums, np.eye(step.basis.shape[1])[:, :1], 0) == 1


def test_users_of_some_groups_are_visited_alone():
    _, X = simulate(500, 50, 2)
    some = SomeUsers(UsersInMemory(X), (1, 2))
    assert (
        some.add_up(lambda rows: len(rows.positions))
        == np.isin(hash_groups(np.arange(500)), (1, 2)).sum()
    )
