"""A segment, a union and a "without" are what a fit on those users through the basis is."""

import numpy as np
import pytest

from mom_pipeline.core import simulate
from mom_pipeline.core.algorithm.decompose import DecomposeSettings, decompose
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.groups.segments import SegmentSums, compare_segments
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.days import MomentSettings, advance, width_for_days
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.engine.shards import write_shards
from mom_pipeline.engine.users import LocalEngine, ShardedUsers

SETTINGS = DecomposeSettings(4)


@pytest.fixture(scope="module")
def segments(tmp_path_factory):
    _, X = simulate(6_000, 200, 4, seed=5)
    estimator = Estimator.from_name("balanced", rows="binary")
    step = advance(X, None, "", MomentSettings(estimator, 4, width_for_days(4)))
    labels = np.random.default_rng(0).integers(-1, 3, X.shape[0])
    return X, step, labels, SegmentSums.from_users(UsersInMemory(X), labels, 3, step.anchor)


@pytest.mark.parametrize("chosen", [[0], [0, 2], [1, 2]])
def test_a_union_equals_a_fit_on_its_users_through_the_same_basis(segments, chosen):
    X, step, labels, sums = segments
    ours = decompose(step.anchor, sums.of(np.array(chosen)), SETTINGS)
    rows = AnchoredSums.from_rows(X[np.isin(labels, chosen)], step.anchor)
    fitted = decompose(step.anchor, rows, SETTINGS)
    np.testing.assert_allclose(ours.item_probs, fitted.item_probs, atol=1e-9)
    np.testing.assert_allclose(ours.weights, fitted.weights, rtol=1e-9)


def test_without_a_segment_is_everyone_less_its_sums(segments):
    X, step, labels, sums = segments
    without = decompose(step.anchor, step.sums - sums.of(np.array([1])), SETTINGS)
    rows = AnchoredSums.from_rows(X[labels != 1], step.anchor)
    fitted = decompose(step.anchor, rows, SETTINGS)
    np.testing.assert_allclose(without.item_probs, fitted.item_probs, atol=1e-9)
    everyone = decompose(step.anchor, step.sums, SETTINGS)
    assert np.abs(without.item_probs - everyone.item_probs).max() > 1e-4


def test_stored_sums_and_those_of_shards_are_the_same(segments, tmp_path):
    X, step, labels, sums = segments
    stored = SegmentSums.from_arrays(sums.as_arrays())
    np.testing.assert_array_equal(stored.of(np.array([2])).triples, sums.parts[2].triples)
    shards = write_shards(X, f"file://{tmp_path}/shards", n_shards=3)
    users = ShardedUsers(LocalEngine(), shards)
    sharded = SegmentSums.from_users(users, labels, 3, step.anchor)
    for ours, theirs in zip(sharded.parts, sums.parts, strict=True):
        np.testing.assert_allclose(ours.item_pairs, theirs.item_pairs, atol=1e-9)


def test_too_many_segments_are_refused_before_any_row_is_read(segments):
    _, step, _, _ = segments
    with pytest.raises(TooLittleData, match="fewer values"):
        SegmentSums.from_users(None, np.zeros(0, int), 10**7, step.anchor)


def test_segments_that_differ_are_told_from_segments_that_do_not():
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(4), 600)
    P[:200, 0] += 0.2
    P /= P.sum(axis=1, keepdims=True)
    different = compare_segments(P, np.arange(200), np.arange(200, 600), rng)
    assert different.p_value == 0.001
    assert different.distance > 0.05
    alike = [
        compare_segments(P, users[:150], users[150:], rng).p_value
        for users in (200 + rng.permutation(400) for _ in range(20))
    ]
    assert min(alike) > 0.005
    assert 0.3 < np.mean(alike) < 0.7
