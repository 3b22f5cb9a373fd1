"""Memberships, lists and metrics over shards are those of the whole matrix."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mom_pipeline.core import MethodOfMoments, evaluate_ranking
from mom_pipeline.core.errors import InvalidInteractions
from mom_pipeline.core.types import Csr
from mom_pipeline.engine import LocalEngine, Shards, write_shards
from mom_pipeline.engine.dask import DaskEngine
from mom_pipeline.engine.outputs import evaluate_shards, write_lists, write_memberships
from mom_pipeline_tests.engine.conftest import K


@pytest.fixture(scope="module")
def model(interactions: Csr) -> MethodOfMoments:
    return MethodOfMoments(K, personalization="em", ranking="components").fit(interactions)


def read_all(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])


def with_row(interactions: Csr) -> np.ndarray:
    return np.flatnonzero(np.diff(interactions.indptr))


def test_memberships(
    interactions: Csr, shards: Shards, model: MethodOfMoments, cluster: DaskEngine, tmp_path: Path
) -> None:
    users = with_row(interactions)
    assert write_memberships(cluster, shards, model, str(tmp_path)) == len(users)
    written = read_all(tmp_path).sort_values("user")
    np.testing.assert_array_equal(written["user"], users)
    expected = model.personalize(interactions)[users]
    np.testing.assert_allclose(np.stack(written["memberships"]), expected, rtol=1e-6)


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists(
    interactions: Csr, shards: Shards, model: MethodOfMoments, tmp_path: Path, exclude_seen: bool
) -> None:
    users = with_row(interactions)
    n = write_lists(LocalEngine(), shards, model, 10, str(tmp_path), exclude_seen=exclude_seen)
    lists = read_all(tmp_path).sort_values(["user", "rank"])
    ids, scores = model.recommend(interactions, 10, exclude_seen=exclude_seen)
    assert n == len(lists) == 10 * len(users)
    np.testing.assert_array_equal(lists["item"].to_numpy().reshape(-1, 10), ids[users])
    np.testing.assert_allclose(lists["score"].to_numpy().reshape(-1, 10), scores[users])


def test_metrics(
    interactions: Csr, shards: Shards, model: MethodOfMoments, cluster: DaskEngine, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    later = sparse.csr_array(
        sparse.random_array(interactions.shape, density=0.01, rng=rng, format="csr")
    )
    absent = rng.random(interactions.shape[0]) < 0.2
    later.data[np.repeat(absent, np.diff(later.indptr))] = 0
    later.eliminate_zeros()
    later_shards = write_shards(later, str(tmp_path), n_shards=5)
    metrics = evaluate_shards(cluster, shards, later_shards, model, [5, 20])
    users = with_row(interactions)
    ids, _ = model.recommend(interactions, 20)
    expected = evaluate_ranking(ids[users], later[users], [5, 20], train=interactions[users])
    assert metrics.n_users == expected.n_users
    assert metrics.n_dropped == expected.n_dropped
    for cutoff in (5, 20):
        assert metrics.mean("map", cutoff) == pytest.approx(expected.map[cutoff], rel=1e-9)
        assert metrics.mean("recall", cutoff) == pytest.approx(expected.recall[cutoff], rel=1e-9)


def test_later_rows_of_another_number_of_shards_are_refused(
    interactions: Csr, shards: Shards, model: MethodOfMoments, tmp_path: Path
) -> None:
    later = write_shards(interactions, str(tmp_path), n_shards=2)
    with pytest.raises(InvalidInteractions, match=r"in 5 shards, found .* in 2"):
        evaluate_shards(LocalEngine(), shards, later, model)
