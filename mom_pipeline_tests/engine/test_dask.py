"""The same passes on a real Dask cluster, whose workers come and go."""

import gc
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.utils import LoopRunner

from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.moments.anchored import Anchor
from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import AnchoredPass, MomentsPass
from mom_pipeline.engine import DamagedShard, EngineFailed, LocalEngine, ShardedUsers, write_shards
from mom_pipeline.engine.dask import EngineUnreachable, dask_engine
from mom_pipeline_tests.core.conftest import assert_same_sums
from mom_pipeline_tests.engine.conftest import K


@dataclass(frozen=True)
class DyingOnce:
    """Work that kills its worker the first time it comes near a user."""

    marker: Path
    work: Callable[..., Any]
    user: int = 100

    def __call__(self, rows, *along):
        if (np.abs(rows.positions - self.user) < 2).any() and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(rows, *along)


def sums_along(rows, along):
    return rows.positions, np.asarray(rows.X.sum(axis=1)) + along[:, 0]


def deadly(rows):
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(rows):
    return int("seven")


def test_a_fit_on_the_cluster_is_the_local_one(cluster, shards):
    local, remote, again = (
        MethodOfMoments(K, "unbiased", ranking="components").fit_users(ShardedUsers(engine, shards))
        for engine in (LocalEngine(), cluster, cluster)
    )
    np.testing.assert_allclose(remote.item_probs, local.item_probs, atol=1e-12)
    np.testing.assert_allclose(remote.weights, local.weights, atol=1e-12)
    np.testing.assert_array_equal(remote.item_probs, again.item_probs)


@pytest.fixture
def lone():
    """A cluster of a single worker, to be killed once: its second return takes a minute."""
    with dask_engine(n_workers=1) as engine:
        yield engine


def test_a_worker_killed_in_the_middle_of_a_pass_changes_nothing(
    cluster, interactions, shards, tmp_path
):
    D, marker = interactions.shape[1], tmp_path / "killed"
    basis = np.random.default_rng(1).standard_normal((D, 7))
    work = AnchoredPass(Anchor(basis, np.ones(D), Estimator.from_name("unbiased")))
    total = cluster.add_up(DyingOnce(marker, work), shards)
    assert marker.exists()
    assert_same_sums(total, LocalEngine().add_up(work, shards), rtol=1e-12)


@pytest.mark.parametrize("workers", ["cluster", "lone"])
def test_a_worker_killed_in_the_middle_of_a_visit_changes_nothing(
    workers, request, interactions, shards, tmp_path
):
    """Also where all workers are lost, and what they had been sent."""
    engine = request.getfixturevalue(workers)
    asked, along = np.arange(0, interactions.shape[0], 3), np.arange(1000.0)[:, None]
    marker = tmp_path / "killed"
    parts = ShardedUsers(engine, shards).visit(DyingOnce(marker, sums_along), asked, along)
    positions, sums = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    assert marker.exists()
    order = np.argsort(positions)
    np.testing.assert_array_equal(positions[order], asked)
    expected = interactions.sum(axis=1)[asked] + asked
    np.testing.assert_array_equal(sums[order], expected)


def test_no_task_writes_over_its_input(cluster):
    """Results are read by the tree, and again by whoever asks for them."""
    leaves = [cluster.client.scatter(np.full(3, float(i)), hash=False) for i in range(5)]
    total = cluster.added(leaves).result()
    np.testing.assert_array_equal(total, 10.0)
    for i, leaf in enumerate(leaves):
        np.testing.assert_array_equal(leaf.result(), float(i))


def test_a_shard_that_kills_every_worker_is_named(cluster, interactions, tmp_path, monkeypatch):
    shards = write_shards(interactions, str(tmp_path), n_shards=1)
    monkeypatch.setattr(cluster.client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(EngineFailed, match=r"shard-00000.*worker after worker died.*smaller"):
        cluster.add_up(deadly, shards)


def test_a_cluster_that_dies_of_every_shard_says_so(lone, shards, monkeypatch):
    monkeypatch.setattr("mom_pipeline.engine.dask._ATTEMPTS", 2)
    with pytest.raises(EngineFailed, match=r"all workers died, 2 times.*shard-00000.*smaller"):
        lone.add_up(deadly, shards)


def test_more_workers_than_shards(interactions, tmp_path, cluster):
    shards = write_shards(interactions, str(tmp_path), n_shards=1)
    sums = cluster.add_up(MomentsPass(Estimator.from_name("paper")), shards)
    assert sums.n_users == interactions.shape[0] - 2


def test_what_goes_wrong_on_a_worker_is_told_with_the_shard(
    cluster, interactions, shards, tmp_path
):
    with pytest.raises(EngineFailed, match=r"shard-0000\d.*: ValueError: .*seven"):
        cluster.add_up(wrong, shards)
    own = write_shards(interactions, str(tmp_path), n_shards=3)
    (tmp_path / own.entries[1].name).write_bytes(b"nothing")
    with pytest.raises(DamagedShard, match=own.entries[1].name):
        cluster.add_up(MomentsPass(Estimator.from_name("paper")), own)


def test_addresses_that_nobody_answers_at_are_named(monkeypatch):
    monkeypatch.setattr("mom_pipeline.engine.dask._CONNECT_SECONDS", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        silent = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        for address in (silent, "nonsense://here"):
            with pytest.raises(EngineUnreachable, match=f"at {address} within 0.5 s"):
                dask_engine(address).__enter__()
    gc.collect()  # what is left of these clients is closed now, not while another one starts


def test_a_scheduler_without_workers_is_told():
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        pytest.raises(EngineUnreachable, match="has no workers"),
    ):
        dask_engine(cluster.scheduler_address).__enter__()


def test_garbage_is_not_collected_while_a_cluster_or_a_client_starts_or_ends(monkeypatch):
    """A client left behind would be closed then, and wait for the lock that is held."""
    collects: list[bool] = []
    for name in ("start", "stop"):
        held = getattr(LoopRunner, name)

        def noted(runner, *how, held=held):
            collects.append(gc.isenabled())
            held(runner, *how)

        monkeypatch.setattr(LoopRunner, name, noted)
    with dask_engine(n_workers=1):
        assert gc.isenabled()
    assert collects == [False] * 4
    assert gc.isenabled()
