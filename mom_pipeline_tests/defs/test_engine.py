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

from mom_pipeline.core.day_rows import DayRows
from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.defs.assets import serving
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.logs.sample_logs import sample_deliveries
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse import recommendations
from mom_pipeline_tests.mapped import in_small_blocks, is_mapped, noted_in_memory
from mom_pipeline_tests.object_store import (
    BUCKET,
    ObjectStore,
    free_port,
    object_store,
    use_store,
)

from .conftest import N_DAYS, Pipeline, day, failures
from .test_tuning import LOGS, UNTOUCHED, untouched

ON_DASK = '[engine]\nkind = "dask"\nworkers = 2\n'
RANKINGS = {
    "components": "",
    "three-moment": "[ranking]\nhistory_half_life = 3.0\ntrend = 0.5\npopularity = 0.1\n",
}
# What is left to choose: K and the weights of the ranking.
FEW_TO_CHOOSE = '[model]\nestimator = "balanced"\nrows = "binary"\npersonalization = "em"\n'
LISTS = "SELECT day, user_id, rank, item_id, reason FROM recommendations ORDER BY ALL"
SCORES = "SELECT score FROM recommendations ORDER BY day, user_id, rank"
METRICS = "SELECT * EXCLUDE (day, model_day, ranking) FROM evaluation_metrics ORDER BY ALL"


def with_engine(pipeline: Pipeline, section: str) -> Pipeline:
    path = pipeline.root / "pipeline.toml"
    path.write_text(path.read_text() + section)
    return pipeline


@pytest.fixture(scope="module", params=RANKINGS)
def local(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    log_files: Mapping[str, bytes],
) -> Iterator[Pipeline]:
    """All days in this process."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = a_pipeline(tmp_path_factory.mktemp("local"), instance, request.param)
        pipeline.deliver(log_files)
        pipeline.run(1, N_DAYS)
        yield pipeline


def a_pipeline(root: Path, instance: dg.DagsterInstance, ranking: str) -> Pipeline:
    pipeline = Pipeline(root, instance)
    pipeline.configure('ranking = "components"', f'ranking = "{ranking}"')
    return with_engine(pipeline, RANKINGS[ranking])


def test_every_asset_on_a_cluster_finds_the_same_lists(
    local: Pipeline,
    tmp_path: Path,
    log_files: Mapping[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    """With rows that stay in their files: no asset has all of them in this process."""
    rows = local.state.rows(day(N_DAYS)).X
    in_small_blocks(monkeypatch, rows.nnz // 20)
    taken = noted_in_memory(monkeypatch, rows.shape[0] // 2, rows.nnz // 2)
    assert len(local.state.rows(day(N_DAYS)).X.data) == rows.nnz
    assert taken
    taken.clear()
    visited = noted_rows(monkeypatch)
    with dg.DagsterInstance.ephemeral() as instance:
        ranking = local.settings.model.ranking
        pipeline = with_engine(a_pipeline(tmp_path / "dask", instance, ranking), ON_DASK)
        pipeline.deliver(log_files)
        with monkeypatch.context() as patch:
            patch.delattr("mom_pipeline.defs.engine.UsersInMemory")
            patch.delattr("mom_pipeline.core.day_rows.UsersInMemory")
            pipeline.run(1, N_DAYS)
            assert set(taken) == set()
            assert_same_days(pipeline, local)
            taken.clear()
            # The model of the backtest is read from its rows then.
            pipeline.state.artifacts.remove_arrays("m2_statistics", day(N_DAYS - 2))
            pipeline.run(N_DAYS, only=["evaluation_metrics"])
        assert set(taken) == set()
        assert len(visited) > 4 * N_DAYS
        assert all(is_mapped(rows.X.data) and is_mapped(rows.last_days.data) for rows in visited)
        assert not list(pipeline.settings.scratch_dir.glob("*"))
        by_cluster = pipeline.query(METRICS)
        pipeline.configure('kind = "dask"', 'kind = "local"')
        pipeline.run(N_DAYS, only=["evaluation_metrics"])
        np.testing.assert_allclose(by_cluster, pipeline.query(METRICS), rtol=1e-9)


def assert_same_days(pipeline: Pipeline, local: Pipeline) -> None:
    """The same matrices to the last bit, and the same lists, metrics and memberships."""
    modes = [pipeline.mode(n) for n in range(1, N_DAYS + 1)]
    assert modes == [local.mode(n) for n in range(1, N_DAYS + 1)]
    assert "incremental" in modes
    for n in range(1, N_DAYS + 1):
        assert_same_rows(pipeline.state.rows(day(n)), local.state.rows(day(n)))
    assert pipeline.query(LISTS) == local.query(LISTS)
    np.testing.assert_allclose(pipeline.query(SCORES), local.query(SCORES), rtol=1e-4)
    assert len(local.query(METRICS)) > 0
    np.testing.assert_allclose(pipeline.query(METRICS), local.query(METRICS), rtol=1e-12)
    ours, theirs = (
        p.state.fitting("user_personalization", day(N_DAYS)).dense["memberships"]
        for p in (pipeline, local)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def assert_same_rows(ours: DayRows, theirs: DayRows) -> None:
    for one, other in ((ours.X, theirs.X), (ours.last_days, theirs.last_days)):
        assert one.shape == other.shape
        for name in ("data", "indices", "indptr"):
            mine, their = getattr(one, name), getattr(other, name)
            assert mine.dtype == their.dtype
            np.testing.assert_array_equal(mine, their)


def test_settings_are_chosen_on_a_cluster_as_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of all users only the rows of those who are asked come to this process."""
    monkeypatch.setattr("mom_pipeline.tuning.validation.MAX_USERS", 120)
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = untouched(tmp_path / "chosen", instance, UNTOUCHED + FEW_TO_CHOOSE)
        pipeline.deliver({one.name: one.content for one in sample_deliveries(LOGS)})
        pipeline.run(1, 8, only=["raw_logs", "interaction_matrix"])
        pipeline.run(8, only=["chosen_settings"])
        expected = pipeline.state.chosen(day(8))
        rows = pipeline.state.rows(day(6)).X
        in_small_blocks(monkeypatch, rows.nnz // 20)
        taken = noted_in_memory(monkeypatch, rows.shape[0] // 2, rows.nnz // 2)
        for module in ("core.day_rows", "core.ranking.choose", "tuning.validation"):
            monkeypatch.delattr(f"mom_pipeline.{module}.UsersInMemory")
        with_engine(pipeline, ON_DASK).run(8, only=["chosen_settings"])
        chosen = pipeline.state.chosen(day(8))
    assert set(taken) == set()
    assert expected.chosen_on == str(day(8))
    assert expected.evidence["users"] == 120
    assert chosen.method == expected.method
    assert chosen.evidence["map"] == pytest.approx(expected.evidence["map"], rel=1e-9)


def test_the_gate_on_a_cluster_decides_as_this_process_does(
    backfilled: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Other settings against the champion: both are asked about the rows of an earlier day."""
    decisions = []
    for section in ("", ON_DASK):
        root = tmp_path / ((section and "dask") or "local")
        shutil.copytree(backfilled.root, root)
        with dg.DagsterInstance.ephemeral() as instance:
            pipeline = with_engine(Pipeline(root, instance), section)
            pipeline.configure("n_components = 3", "n_components = 4")
            pipeline.run(1, N_DAYS)
            decisions.append(pipeline.metadata("promotion", N_DAYS)["decision"])
        monkeypatch.delattr("mom_pipeline.defs.engine.UsersInMemory", raising=False)
    assert "its settings and the new ones" in decisions[0]
    assert decisions[1] == decisions[0]


def noted_rows(monkeypatch: pytest.MonkeyPatch) -> list[DayRows]:
    """The rows that assets have visited."""
    visited: list[DayRows] = []
    users = EngineResource.users

    def note(self: EngineResource, rows: DayRows) -> object:
        visited.append(rows)
        return users(self, rows)

    monkeypatch.setattr(EngineResource, "users", note)
    return visited


@pytest.fixture
def remote() -> Iterator["Cluster"]:
    cluster = Cluster()
    cluster.start()
    yield cluster
    cluster.kill()


class Cluster:
    """A scheduler and its workers, processes of their own on loopback."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._run("scheduler", "--port", str(self.port), "--dashboard-address", "127.0.0.1:0")
        for _ in range(2):
            dashboard = ["--dashboard-address", "127.0.0.1:0"]
            self._run("worker", self.address, "--nthreads", "1", "--no-nanny", *dashboard)
        with Client(self.address, timeout=30) as client:
            client.wait_for_workers(2, timeout=60)

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def kill_scheduler(self) -> None:
        self._processes[0].kill()
        self._processes[0].wait()

    def _run(self, role: str, *how: str) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{role}", "--host", "127.0.0.1", *how],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )


def test_a_scheduler_that_is_killed_is_told_and_the_next_run_converges(
    copied: Pipeline, remote: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """It is killed when the first lists of a shard were inserted, and others were not."""
    before = copied.query(LISTS)
    with_engine(copied, f'[engine]\nkind = "dask"\naddress = "{remote.address}"\n')
    inserted: list[int] = []
    insert = recommendations._insert

    def insert_and_kill(*args: Any) -> int:
        inserted.append(insert(*args))
        remote.kill_scheduler()
        return inserted[-1]

    monkeypatch.setattr(recommendations, "_insert", insert_and_kill)
    done = copied.run(1, succeeds=False)
    (said,) = failures(done)
    assert "recommendations" in said
    assert f"the Dask scheduler at {remote.address} is gone" in said
    assert "start it again, then repeat the command" in said
    assert len(inserted) == 1
    assert inserted[0] > 0
    assert copied.query(LISTS) == before
    assert not list(copied.settings.scratch_dir.glob("*"))
    monkeypatch.setattr(recommendations, "_insert", insert)
    remote.kill()
    remote.start()
    copied.run(1, N_DAYS)
    assert copied.query(LISTS) == before


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store(tmp_path / "store.log") as store:
        use_store(monkeypatch, store.url)
        yield store


ON_S3 = f'{ON_DASK}shards_url = "s3://{BUCKET}/days"\n'


def test_shards_on_an_object_store_give_the_same_lists(copied: Pipeline, store: ObjectStore):
    before = copied.query(LISTS)
    with_engine(copied, ON_S3).run(1, N_DAYS)
    assert copied.query(LISTS) == before
    assert store.names() == []


def test_a_store_that_vanishes_is_told_and_the_next_run_converges(
    copied: Pipeline, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
):
    before = copied.query(LISTS)
    with_engine(copied, ON_S3)
    _visit = serving._visit

    def visit_and_kill(*args: Any) -> Any:
        """The rows of the day were not read by anyone yet, and their shards are gone."""
        visit = _visit(*args)
        store.kill()
        return visit

    monkeypatch.setattr(serving, "_visit", visit_and_kill)
    done = copied.run(2, only=["user_personalization", "recommendations"], succeeds=False)
    (said,) = failures(done)
    assert f"the shard store s3://{BUCKET}/days" in said
    assert copied.query(LISTS) == before
    monkeypatch.setattr(serving, "_visit", _visit)
    store.start()
    store.make_bucket()
    copied.run(2, only=["user_personalization", "recommendations"])
    assert copied.query(LISTS) == before


def test_wrong_keys_are_told_and_nothing_changes(
    copied: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = copied.state.artifacts.version("m2_statistics", day(1))
    with object_store(tmp_path / "log", checked=True) as store:
        key, secret = store.make_user()
        store.make_bucket()
        use_store(monkeypatch, store.url, key, "no secret")
        done = with_engine(copied, ON_S3).run(1, only=["m2_statistics"], succeeds=False)
        (said,) = failures(done)
        assert f"the shard store s3://{BUCKET}/days" in said
        assert "read from the environment of this process and of every worker" in said
        assert copied.state.artifacts.version("m2_statistics", day(1)) == before
        use_store(monkeypatch, store.url, key, secret)
        copied.run(1, only=["m2_statistics"])


def test_a_cluster_that_cannot_be_reached_is_told_and_nothing_changes(copied: Pipeline):
    before = copied.state.artifacts.describe("m2_statistics", day(1)).version
    with_engine(copied, '[engine]\nkind = "dask"\naddress = "tcp://127.0.0.1:9"\n')
    done = copied.run(1, only=["m2_statistics"], full=True, succeeds=False)
    failure = done.failure_data_for_node("m2_statistics")
    assert failure is not None
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in str(failure.error)
    assert copied.state.artifacts.describe("m2_statistics", day(1)).version == before


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('kind = "spark"', "engine.kind must be one of"),
        ("workers = 0", "engine.workers must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, section, message):
    (tmp_path / "pipeline.toml").write_text(f"[engine]\n{section}\n")
    with pytest.raises(InvalidSetting, match=message):
        load_settings(tmp_path, {})
