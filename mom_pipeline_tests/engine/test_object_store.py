"""Shards on a real S3 server on loopback: keys from the environment, lost stores."""

from dataclasses import dataclass

import numpy as np
import pytest

from mom_pipeline.engine import LocalEngine, ShardedUsers, Shards, StoreFailed, write_shards
from mom_pipeline_tests.engine.test_shards import put_together
from mom_pipeline_tests.object_store import BUCKET, ObjectStore, object_store, use_store

URL = f"s3://{BUCKET}/some/shards"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with object_store(tmp_path_factory.mktemp("store") / "log") as store:
        yield store


@pytest.fixture
def store(server, monkeypatch):
    monkeypatch.setattr("mom_pipeline.engine.shards._PAUSES", (0.01,))
    use_store(monkeypatch, server.url)
    return server


@pytest.fixture
def lost(tmp_path, monkeypatch):
    """A server of its own, to be killed."""
    with object_store(tmp_path / "log") as store:
        use_store(monkeypatch, store.url)
        yield store


def test_every_row_comes_back(store, interactions):
    shards = write_shards(interactions, URL, n_shards=3)
    assert (put_together(Shards.open(URL)) != interactions).nnz == 0
    again = write_shards(interactions[:100], URL, n_shards=2)
    names = sorted(name.rpartition("/")[2] for name in store.names())
    assert names == sorted([*(entry.name for entry in again.entries), "shards.json"])
    assert not {entry.name for entry in shards.entries} & set(names)


@dataclass
class LosingTheStore:
    """A visit that kills the store after its first part."""

    store: ObjectStore

    def __call__(self, rows, along):
        self.store.kill()
        return len(rows.positions)


def test_a_store_that_vanishes_in_a_pass_is_named_and_nothing_is_lost(lost, interactions):
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


def test_a_bucket_that_does_not_exist_is_named(store, interactions):
    with pytest.raises(StoreFailed, match=r"s3://nowhere/shards/shards\.json is gone"):
        Shards.open("s3://nowhere/shards")


def test_no_keys_at_all_are_told(store, interactions, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(StoreFailed, match="environment of this process"):
        write_shards(interactions, URL, n_shards=2)
