"""EM from the spectral estimate is as good as EM from the truth, wherever the rows are."""

import numpy as np
import pytest

from mom_pipeline.core import MethodOfMoments, simulate
from mom_pipeline.core.algorithm.decomposition import match_columns
from mom_pipeline.core.groups.refine import refine
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.ranking.memberships import Personalization
from mom_pipeline.core.threads import using_cores
from mom_pipeline.engine.shards import write_shards
from mom_pipeline.engine.users import LocalEngine, ShardedUsers

CLASSES = Personalization("product", smoothing=0.05)


@pytest.fixture(scope="module")
def simulated():
    truth, X = simulate(20_000, 1_000, 6, seed=3)
    model = MethodOfMoments(6, "unbiased", ranking="components", projection="simplex").fit(X)
    return truth, X, model


def error(found, true):
    ours, theirs = match_columns(found, true)
    return np.abs(found[:, ours] - true[:, theirs]).sum(axis=0).mean()


def test_steps_from_the_spectral_estimate_reach_what_steps_from_the_truth_reach(simulated):
    truth, X, model = simulated
    refined = refine(UsersInMemory(X), model.item_probs, model.weights, CLASSES, "counts")
    best = refine(UsersInMemory(X), truth.item_probs, truth.weights, CLASSES, "counts", n_steps=30)
    ideal = error(best.item_probs, truth.item_probs)
    assert error(refined.item_probs, truth.item_probs) < 1.01 * ideal
    assert error(model.item_probs, truth.item_probs) > 1.2 * ideal
    assert (np.diff(refined.log_likelihoods) > -1e-4 * abs(refined.log_likelihoods[0])).all()
    np.testing.assert_allclose(refined.item_probs.sum(axis=0), 1, rtol=1e-4)
    assert refined.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", ["em", "product"])
def test_the_same_on_any_number_of_threads_and_up_to_rounding_over_shards(
    simulated, tmp_path, rule
):
    _, X, model = simulated
    settings = Personalization(rule)
    parts = write_shards(X, f"file://{tmp_path}/shards", n_shards=3)
    results = []
    for users, cores in (
        (UsersInMemory(X), 1),
        (UsersInMemory(X), 2),
        (ShardedUsers(LocalEngine(), parts), 2),
    ):
        with using_cores(cores):
            results.append(refine(users, model.item_probs, model.weights, settings, "binary"))
    one, two, sharded = results
    np.testing.assert_array_equal(one.item_probs, two.item_probs)
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_allclose(sharded.item_probs, one.item_probs, rtol=1e-3, atol=1e-6)


def test_users_without_events_and_items_without_users_stay_out(simulated):
    _, X, model = simulated
    X = X[:500].copy()
    X.data[: X.indptr[3]] = 0
    X.eliminate_zeros()
    refined = refine(
        UsersInMemory(X), model.item_probs, model.weights, Personalization("em"), "binary"
    )
    assert np.isfinite(refined.item_probs).all()
    assert refined.item_probs[X.sum(axis=0) == 0].max() < 1e-6
