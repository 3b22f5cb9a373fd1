"""Shards on a real S3 server on loopback: keys from the environment, broken reads, lost stores."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.core.moments.estimators import Estimator
from mom_pipeline.core.moments.users import MomentsPass, UserRows
from mom_pipeline.core.types import Csr
from mom_pipeline.engine import LocalEngine, ShardedUsers, Shards, StoreFailed, write_shards
from mom_pipeline.engine.dask import dask_engine
from mom_pipeline_tests.engine.test_shards import count_users, put_together
from mom_pipeline_tests.object_store import (
    BUCKET,
    CuttingProxy,
    ObjectStore,
    object_store,
    use_store,
)

MOMENTS = MomentsPass(Estimator.from_name("paper"))
URL = f"s3://{BUCKET}/some/shards"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store") / "log") as store:
        yield store


@pytest.fixture
def store(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr("mom_pipeline.engine.shards._PAUSES", (0.01,))
    use_store(monkeypatch, server.url)
    return server


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A server of its own, to be killed."""
    with object_store(tmp_path / "log") as store:
        use_store(monkeypatch, store.url)
        yield store


def test_every_row_comes_back(store: ObjectStore, interactions: Csr) -> None:
    shards = write_shards(interactions, URL, n_shards=3)
    assert (put_together(Shards.open(URL)) != interactions).nnz == 0
    again = write_shards(interactions[:100], URL, n_shards=2)
    names = sorted(name.rpartition("/")[2] for name in store.names())
    assert names == sorted([*(entry.name for entry in again.entries), "shards.json"])
    assert not {entry.name for entry in shards.entries} & set(names)


def test_workers_find_the_keys_in_their_environment(store: ObjectStore, interactions: Csr) -> None:
    shards = write_shards(interactions, f"s3://{BUCKET}/sums/shards", n_shards=5)
    with dask_engine(n_workers=1) as engine:
        sums = engine.add_up(MOMENTS, shards)
    np.testing.assert_array_equal(sums.item_events, interactions.sum(axis=0))


@pytest.mark.parametrize("cuts", [1, 8])  # more than the client of the store tries again
def test_a_read_that_fails_half_way_is_tried_again(
    store: ObjectStore, interactions: Csr, monkeypatch: pytest.MonkeyPatch, cuts: int
) -> None:
    shards = write_shards(interactions, f"s3://{BUCKET}/cut{cuts}", n_shards=3)
    proxy = CuttingProxy(store.port, cuts)
    use_store(monkeypatch, proxy.url)
    result = LocalEngine().add_up(MOMENTS, shards)
    proxy.close()
    assert proxy.done == cuts
    np.testing.assert_array_equal(result.item_events, interactions.sum(axis=0))


def test_reads_that_always_fail_are_told(
    store: ObjectStore, interactions: Csr, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = write_shards(interactions, f"s3://{BUCKET}/broken", n_shards=2)
    proxy = CuttingProxy(store.port, -1)
    use_store(monkeypatch, proxy.url)
    with pytest.raises(StoreFailed, match=rf"{shards.url}/shard-0000\d.* failed: "):
        LocalEngine().add_up(count_users, shards)
    proxy.close()
    assert proxy.done > 1


@dataclass
class LosingTheStore:
    """A visit that kills the store after its first part."""

    store: ObjectStore

    def __call__(self, rows: UserRows, along: None) -> int:
        self.store.kill()
        return len(rows.positions)


def test_a_store_that_vanishes_in_a_pass_is_named_and_nothing_is_lost(
    lost: ObjectStore, interactions: Csr
) -> None:
    shards = write_shards(interactions, URL, n_shards=4)
    users = np.arange(interactions.shape[0])
    parts = ShardedUsers(LocalEngine(), shards).visit(LosingTheStore(lost), users)
    assert next(parts) > 0
    with pytest.raises(StoreFailed, match=rf"{URL}/shard-00001.* failed: .*127\.0\.0\.1"):
        next(parts)
    lost.start()
    lost.make_bucket()
    again = write_shards(interactions, URL, n_shards=4)
    assert (put_together(again) != interactions).nnz == 0


def test_a_bucket_that_does_not_exist_is_named(store: ObjectStore, interactions: Csr) -> None:
    with pytest.raises(StoreFailed, match=r"s3://nowhere/shards/shards\.json is gone"):
        Shards.open("s3://nowhere/shards")


def test_wrong_keys_are_told_and_the_right_ones_work(
    tmp_path: Path, interactions: Csr, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_store(tmp_path / "log", checked=True) as store:
        key, secret = store.make_user()
        store.make_bucket()
        use_store(monkeypatch, store.url, key, secret)
        shards = write_shards(interactions, URL, n_shards=2)
        for wrong in (("AKIAIOSFODNN7EXAMPLE", secret), (key, "no secret")):
            use_store(monkeypatch, store.url, *wrong)
            with pytest.raises(StoreFailed, match="environment of this process") as refused:
                write_shards(interactions[:50], URL, n_shards=2)
            assert URL in str(refused.value)
            assert secret not in str(refused.value)
            with pytest.raises(StoreFailed, match="environment of this process"):
                Shards.open(URL)
        use_store(monkeypatch, store.url, key, secret)
        assert Shards.open(URL) == shards
        assert (put_together(shards) != interactions).nnz == 0


def test_no_keys_at_all_are_told(
    store: ObjectStore, interactions: Csr, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(StoreFailed, match="environment of this process"):
        write_shards(interactions, URL, n_shards=2)
