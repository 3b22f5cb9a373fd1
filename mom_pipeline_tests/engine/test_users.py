"""Fits and days over shards are those in memory; results are added in one order."""

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.moments.cooccurrences import Cooccurrences, rare_items
from mom_pipeline.core.moments.days import MomentSettings, advance
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.pair_ranking import PairRanking
from mom_pipeline.core.ranking.score import RankingWeights
from mom_pipeline.engine import EngineFailed, LocalEngine, ShardedUsers, Shards, write_shards
from mom_pipeline.engine.users import add_in_order
from mom_pipeline_tests.engine.conftest import D, K


@pytest.mark.parametrize(
    ("estimator", "n_items"),  # few are decomposed directly
    [("paper", D), ("unbiased", D), ("balanced", D), ("unbiased", 300)],
)
def test_a_fit_over_shards_is_the_fit_in_memory(interactions, tmp_path, estimator, n_items):
    X = interactions[:, :n_items]
    users = ShardedUsers(LocalEngine(), write_shards(X, str(tmp_path), n_shards=3))
    whole = MethodOfMoments(K, estimator, ranking="components").fit(X)
    parts = MethodOfMoments(K, estimator, ranking="components").fit_users(users)
    np.testing.assert_allclose(parts.item_probs, whole.item_probs, atol=1e-9)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-9)
    assert parts.diagnostics["n_users"] == whole.diagnostics["n_users"]


@pytest.mark.parametrize("estimator", ["unbiased", "balanced"])
def test_a_day_rebuilt_over_shards_is_the_day(interactions, shards, estimator):
    settings = MomentSettings(Estimator.from_name(estimator), K, K + 8, halves=True)
    whole = advance(interactions, None, "", settings)
    parts = advance(interactions, None, "", settings, ShardedUsers(LocalEngine(), shards))
    theirs = whole.sums.as_arrays()
    assert {"item_pairs", "half_triples"} <= theirs.keys()
    for name, array in parts.sums.as_arrays().items():
        np.testing.assert_allclose(array, theirs[name], atol=1e-9, err_msg=name)


WEIGHTS = RankingWeights(trend_1=(0.5, 0.1), quiet=(-0.2, 0.0))


def days_of(interactions):
    days = interactions.copy()
    days.data = np.random.default_rng(3).integers(700_000, 700_060, days.nnz).astype(float)
    return days


def test_three_moments_over_shards_rank_like_those_of_the_rows(interactions, tmp_path):
    days = days_of(interactions)
    shards = write_shards(interactions, str(tmp_path), n_shards=4, last_days=days)
    model = MethodOfMoments(K, ranking_weights=WEIGHTS)
    parts = model.fit_users(ShardedUsers(LocalEngine(), Shards.open(shards.url))).fitted
    model = MethodOfMoments(K, ranking_weights=WEIGHTS)
    whole = model.fit(interactions, last_days=days).fitted
    ours, theirs = parts.pair_ranking, whole.pair_ranking
    for name, array in theirs.counts.as_arrays().items():
        np.testing.assert_array_equal(ours.counts.as_arrays()[name], array, err_msg=name)
    for name, array in theirs.days.as_arrays().items():
        np.testing.assert_array_equal(ours.days.as_arrays()[name], array, err_msg=name)
    assert (ours.ease.matrix.entries != theirs.ease.matrix.entries).nnz == 0
    ours, theirs = (
        model.best(interactions, 10, last_days=days, exclude_seen=False) for model in (parts, whole)
    )
    np.testing.assert_array_equal(ours.items, theirs.items)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-6)


def test_the_low_pass_part_over_shards_is_that_of_the_rows(interactions, shards):
    users = ShardedUsers(LocalEngine(), shards), UsersInMemory(interactions)
    ours, theirs = (PairRanking.from_users(own).low_pass for own in users)
    np.testing.assert_array_equal(ours.item_scale, theirs.item_scale)
    ours, theirs = (part.basis @ part.basis.T for part in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("share", [0.3, 2.0])
def test_items_left_out_for_lack_of_bytes_are_the_same_over_shards(interactions, shards, share):
    most = int(share * Cooccurrences.from_rows(interactions, 1.0).n_pairs)
    users = [ShardedUsers(LocalEngine(), shards), UsersInMemory(interactions)]
    ours, theirs = (rare_items(own, 48 * most) for own in users)
    np.testing.assert_array_equal(ours, theirs)
    counts = Cooccurrences.from_rows(interactions, 1.0, uncounted=ours)
    assert counts.n_pairs <= most
    if share < 1:  # and not one item more would have fitted
        taken = np.bincount(interactions.indices, minlength=interactions.shape[1])
        best = ours[np.lexsort((ours, -taken[ours]))[0]]
        wider = Cooccurrences.from_rows(interactions, 1.0, uncounted=ours[ours != best])
        assert wider.n_pairs > most


def test_visits_are_those_of_the_rows(interactions, tmp_path):
    """Every part has the rows asked for, empty ones too, their days, and what goes along."""
    asked, days = np.array([3, 16, 17, 18, 200, 899, 950]), days_of(interactions)
    shards = write_shards(interactions, str(tmp_path), n_shards=5, last_days=days)
    expected = [np.append(own.sum(axis=1)[asked[:-1]], 0.0) for own in (interactions, days)]
    for users in (ShardedUsers(LocalEngine(), shards), UsersInMemory(interactions, days)):
        parts = list(users.visit(as_seen, asked, np.arange(960.0)[:, None]))
        seen, sums, of_days, along = (np.concatenate(own) for own in zip(*parts, strict=True))
        order = np.argsort(seen)
        for found in (seen, along):
            np.testing.assert_array_equal(found[order], asked)
        np.testing.assert_array_equal(sums[order], expected[0])
        np.testing.assert_array_equal(of_days[order], expected[1])


def as_seen(rows, along):
    sums = (np.asarray(own.sum(axis=1)) for own in (rows.X, rows.last_days))
    return rows.positions, *sums, along[:, 0]


def test_lack_of_memory_names_the_shard(shards):
    def greedy(rows):
        return int(np.empty(2**57).size)

    with pytest.raises(EngineFailed, match=f"{shards.entries[0].name} of .*MemoryError.*smaller"):
        LocalEngine().add_up(greedy, shards)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (1, "0"),
        (2, "(0 1)"),
        (3, "((0 1) 2)"),
        (5, "(((0 1) (2 3)) 4)"),
        (6, "(((0 1) (2 3)) (4 5))"),
        (7, "(((0 1) (2 3)) ((4 5) 6))"),
        (11, "((((0 1) (2 3)) ((4 5) (6 7))) ((8 9) 10))"),
    ],
)
def test_the_order_of_addition(n, expected):
    assert add_in_order(map(str, range(n)), lambda a, b: f"({a} {b})") == expected
