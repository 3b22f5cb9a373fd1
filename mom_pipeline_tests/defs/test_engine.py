"""The days of a pipeline whose users a Dask cluster visits; without the cluster nothing changes."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from distributed import Client

from mom_pipeline.core.moments.users import DayRows
from mom_pipeline.defs.resources import OpenFolder
from mom_pipeline.logs.sample_logs import sample_deliveries
from mom_pipeline.warehouse import lists
from mom_pipeline_tests.mapped import in_small_blocks, is_mapped, noted_in_memory
from mom_pipeline_tests.object_store import BUCKET, object_store, use_store
from mom_pipeline_tests.running import free_port

from .conftest import N_DAYS, SERVED, Pipeline, day, failures
from .test_tuning import LOGS, UNTOUCHED, untouched

# A cluster that each run starts for itself, and ends.
OF_ITS_OWN = '[engine]\nkind = "dask"\nworkers = 2\n'
WEIGHTS = "[ranking]\nweights = { trend_1 = 0.5, quiet = -0.1 }\n"
# What is left to choose: K and the weights of the ranking.
FEW_TO_CHOOSE = '[model]\nestimator = "balanced"\nrows = "binary"\npersonalization = "em"\n'
LISTS = "SELECT user_id, rank, item_id, reason FROM recommendations ORDER BY ALL"
SCORES = "SELECT score FROM recommendations ORDER BY user_id, rank"
METRICS = "SELECT * EXCLUDE (day, model_day, ranking) FROM evaluation_metrics ORDER BY ALL"
# In full, incremental, and with a backtest.
DAYS = 3


class Cluster:
    """A scheduler and two workers, processes of their own on loopback."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.section = f'[engine]\nkind = "dask"\naddress = "{self.address}"\n'
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._run("scheduler", "--port", str(self.port))
        for _ in range(2):
            self._run("worker", self.address, "--nthreads", "1", "--no-nanny")
        with Client(self.address, timeout=30) as client:
            client.wait_for_workers(2, timeout=60)

    def kill(self) -> None:
        while self._processes:
            self.kill_oldest()

    def kill_oldest(self) -> None:
        """The scheduler, then the workers."""
        process = self._processes.pop(0)
        process.kill()
        process.wait()

    def _run(self, role: str, *how: str) -> None:
        where = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{role}", *where, *how],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests: to start its workers takes longer than most of them."""
    cluster = Cluster()
    cluster.start()
    yield cluster
    cluster.kill()


def with_engine(pipeline: Pipeline, section: str) -> Pipeline:
    path = pipeline.root / "pipeline.toml"
    path.write_text(path.read_text() + section)
    return pipeline


def three_moments(root: Path, instance: dg.DagsterInstance) -> Pipeline:
    pipeline = Pipeline(root, instance)
    pipeline.configure('ranking = "components"', 'ranking = "three-moment"')
    return with_engine(pipeline, WEIGHTS)


def test_every_asset_on_a_cluster_finds_the_same_lists(
    cluster: Cluster,
    tmp_path: Path,
    log_files: Mapping[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    """With rows that stay in their files: no asset has all of them in this process."""
    with dg.DagsterInstance.ephemeral() as instance, dg.DagsterInstance.ephemeral() as other:
        local = three_moments(tmp_path / "local", instance)
        local.deliver(log_files)
        local.run(1, DAYS)
        rows = local.days.rows(day(DAYS)).X
        in_small_blocks(monkeypatch, rows.nnz // 20)
        taken = noted_in_memory(monkeypatch, rows.shape[0] // 2, rows.nnz // 2)
        assert len(local.days.rows(day(DAYS)).X.data) == rows.nnz
        assert taken
        taken.clear()
        visited = noted_rows(monkeypatch)
        pipeline = with_engine(three_moments(tmp_path / "dask", other), cluster.section)
        pipeline.deliver(log_files)
        with monkeypatch.context() as patch:
            patch.delattr("mom_pipeline.defs.resources.UsersInMemory")
            patch.delattr("mom_pipeline.core.moments.users.UsersInMemory")
            pipeline.run(1, DAYS)
            # The gate of a day still holds the rows of the day before: its lift is counted here.
            assert {where for where in taken if "logs/gate.py" not in where} == set()
            assert_same_days(pipeline, local)
        # Moments, whitening and memberships of each day; a backtest; how many groups; the lists.
        assert len(visited) == 3 * DAYS + 1 + 1 + 1
        assert all(is_mapped(rows.X.data) and is_mapped(rows.last_days.data) for rows in visited)
        assert not list(pipeline.settings.scratch_dir.glob("*"))


def assert_same_days(pipeline: Pipeline, local: Pipeline) -> None:
    """The same matrices to the last bit, and the same lists, metrics and memberships."""
    numbers = range(1, DAYS + 1)
    modes = [pipeline.mode(n) for n in numbers]
    assert modes == [local.mode(n) for n in numbers]
    assert "incremental" in modes
    for n in numbers:
        assert_same_rows(pipeline.days.rows(day(n)), local.days.rows(day(n)))
    assert pipeline.query(LISTS) == local.query(LISTS)
    np.testing.assert_allclose(pipeline.query(SCORES), local.query(SCORES), rtol=1e-4)
    assert len(local.query(METRICS)) > 0
    np.testing.assert_allclose(pipeline.query(METRICS), local.query(METRICS), rtol=1e-12)
    ours, theirs = (
        p.days.arrays("user_personalization", day(DAYS))["memberships"] for p in (pipeline, local)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def assert_same_rows(ours: DayRows, theirs: DayRows) -> None:
    for one, other in ((ours.X, theirs.X), (ours.last_days, theirs.last_days)):
        assert one.shape == other.shape
        for name in ("data", "indices", "indptr"):
            mine, their = getattr(one, name), getattr(other, name)
            assert mine.dtype == their.dtype
            np.testing.assert_array_equal(mine, their)


def noted_rows(monkeypatch: pytest.MonkeyPatch) -> list[DayRows]:
    """The rows that assets have visited."""
    visited: list[DayRows] = []
    users = OpenFolder.users

    def note(self: OpenFolder, rows: DayRows) -> object:
        visited.append(rows)
        return users(self, rows)

    monkeypatch.setattr(OpenFolder, "users", note)
    return visited


def test_settings_are_chosen_on_a_cluster_as_in_this_process(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of all users only the rows of those who are asked come to this process."""
    monkeypatch.setattr("mom_pipeline.core.ranking.learning.MAX_USERS", 120)
    monkeypatch.setattr("mom_pipeline.pipeline.choice._LIKELIHOOD_USERS", 60)
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = untouched(tmp_path / "chosen", instance, UNTOUCHED + FEW_TO_CHOOSE)
        pipeline.deliver({one.name: one.content for one in sample_deliveries(LOGS)})
        pipeline.run(1, 8, only=["raw_logs", "interaction_matrix"])
        pipeline.run(8, only=["chosen_settings"])
        expected = pipeline.days.chosen(day(8))
        rows = pipeline.days.rows(day(6)).X
        in_small_blocks(monkeypatch, rows.nnz // 20)
        taken = noted_in_memory(monkeypatch, rows.shape[0] // 2, rows.nnz // 2)
        for module in ("core.moments.users", "core.ranking.learning", "pipeline.choice"):
            monkeypatch.delattr(f"mom_pipeline.{module}.UsersInMemory")
        with_engine(pipeline, cluster.section).run(8, only=["chosen_settings"])
        chosen = pipeline.days.chosen(day(8))
    assert set(taken) == set()
    assert expected.chosen_on == str(day(8))
    assert 60 < expected.evidence["users"] <= 120
    assert chosen.method == expected.method
    assert chosen.evidence["ndcg"] == pytest.approx(expected.evidence["ndcg"], rel=1e-9)


def test_the_gate_on_a_cluster_decides_as_this_process_does(
    cluster: Cluster, backfilled: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Other settings against the champion: both are asked about the rows of an earlier day."""
    decisions = []
    for section in ("", cluster.section):
        root = tmp_path / ((section and "dask") or "local")
        shutil.copytree(backfilled.root, root)
        with dg.DagsterInstance.ephemeral() as instance:
            pipeline = with_engine(Pipeline(root, instance), section)
            pipeline.configure("n_components = 3", "n_components = 4")
            pipeline.run(N_DAYS - 2, N_DAYS, only=SERVED[2:-2])
            decisions.append(pipeline.metadata("promotion", N_DAYS)["decision"])
        monkeypatch.delattr("mom_pipeline.defs.resources.UsersInMemory", raising=False)
    assert "its settings and the new ones" in decisions[0]
    assert decisions[1] == decisions[0]


def test_a_scheduler_that_is_killed_is_told_and_the_next_run_converges(
    copied: Pipeline, monkeypatch: pytest.MonkeyPatch
):
    """It is killed when the first lists of a shard were inserted, and others were not."""
    before, inserted, insert = copied.query(LISTS), [], lists._insert
    cluster = Cluster()
    cluster.start()

    def insert_and_kill(*args: Any) -> int:
        inserted.append(insert(*args))
        cluster.kill_oldest()
        return inserted[-1]

    with_engine(copied, cluster.section)
    product = ["recommendations", "report"]
    with monkeypatch.context() as patch:
        patch.setattr(lists, "_insert", insert_and_kill)
        done = copied.run(N_DAYS, only=product, succeeds=False)
    (said,) = failures(done)
    assert "recommendations" in said
    assert f"the Dask scheduler at {cluster.address} is gone" in said
    assert "start it again, then repeat the command" in said
    assert len(inserted) == 1
    assert inserted[0] > 0
    assert copied.query(LISTS) == before
    assert not list(copied.settings.scratch_dir.glob("*"))
    cluster.kill()
    cluster.start()
    copied.run(N_DAYS, only=product)
    cluster.kill()
    assert copied.query(LISTS) == before
    assert copied.states() == ["fresh"] * N_DAYS


ON_S3 = f'{OF_ITS_OWN}shards_url = "s3://{BUCKET}/days"\n'


def test_shards_on_an_object_store_give_the_same_lists(
    copied: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = copied.query(LISTS)
    with object_store(tmp_path / "store.log") as store:
        use_store(monkeypatch, store.url)
        with_engine(copied, ON_S3).run(N_DAYS)
        assert copied.query(LISTS) == before
        assert store.names() == []


def test_wrong_keys_are_told_and_nothing_changes(
    copied: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = copied.versions("m2_statistics")
    with object_store(tmp_path / "log", checked=True) as store:
        key, secret = store.make_user()
        store.make_bucket()
        use_store(monkeypatch, store.url, key, "no secret")
        done = with_engine(copied, ON_S3).run(1, only=["m2_statistics"], succeeds=False)
        (said,) = failures(done)
        assert f"the shard store s3://{BUCKET}/days" in said
        assert "read from the environment of this process and of every worker" in said
        assert copied.versions("m2_statistics") == before
        use_store(monkeypatch, store.url, key, secret)
        copied.run(1, only=["m2_statistics"])


def test_a_cluster_that_cannot_be_reached_is_told_and_nothing_changes(copied: Pipeline):
    before = copied.versions("m2_statistics")
    with_engine(copied, '[engine]\nkind = "dask"\naddress = "tcp://127.0.0.1:9"\n')
    done = copied.run(1, only=["m2_statistics"], full=True, succeeds=False)
    (said,) = failures(done)
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in said
    assert copied.versions("m2_statistics") == before
