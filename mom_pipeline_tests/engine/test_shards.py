"""Shards hold every user once, and say which of them is missing or damaged."""

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.engine import DamagedShard, LocalEngine, Shards, ShardWriter, write_shards
from mom_pipeline.engine.shards import MANIFEST, shard_indices


def put_together(shards):
    """Return all rows at their positions."""
    dense = np.zeros(shards.shape)
    for index in range(len(shards.entries)):
        rows = shards.read(index)
        assert not dense[rows.positions].any()
        dense[rows.positions] = rows.X.toarray()
    return sparse.csr_array(dense)


def count_users(rows):
    return len(rows.positions)


def test_every_row_comes_back(interactions, shards):
    again = put_together(Shards.open(shards.url))
    assert shards.shape == interactions.shape
    assert (again != interactions).nnz == 0
    assert shards.n_pairs == interactions.nnz


def test_users_are_spread_evenly_and_by_their_hash(interactions, shards):
    sizes = [entry.n_users for entry in shards.entries]
    assert max(sizes) < 1.1 * min(sizes)
    for index in range(5):
        assert set(shard_indices(shards.read(index).positions, 5)) == {index}


def test_blocks_of_users_make_the_same_shards(interactions, tmp_path):
    with ShardWriter(str(tmp_path), interactions.shape[1], 3) as writer:
        for start in range(0, interactions.shape[0], 250):
            writer.add(interactions[start : start + 250])
    assert (put_together(writer.shards) != interactions).nnz == 0


def test_any_url_of_fsspec_will_do_and_a_relative_path_is_made_absolute(
    interactions, tmp_path, monkeypatch
):
    shards = write_shards(interactions, "memory://some/shards", n_shards=2)
    assert (put_together(Shards.open(shards.url)) != interactions).nnz == 0
    monkeypatch.chdir(tmp_path)
    shards = write_shards(interactions, "here", n_shards=2)
    assert shards.url == Shards.open("here").url == str(tmp_path / "here")


def test_shards_without_users_add_nothing(tmp_path):
    X = sparse.csr_array(np.eye(2, 6))
    shards = write_shards(X, str(tmp_path), n_shards=7)
    assert [entry.n_users for entry in shards.entries].count(0) == 5
    assert LocalEngine().add_up(count_users, shards) == 2


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[:-9], "is not the file"),
        (lambda b: b[:50] + b"x" + b[51:], "is not the file"),
        (None, "is gone"),
    ],
)
def test_a_damaged_or_missing_shard_is_named(interactions, tmp_path, damage, words):
    shards = write_shards(interactions, str(tmp_path), n_shards=3)
    path = tmp_path / shards.entries[2].name
    content = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(content))
    with pytest.raises(DamagedShard, match=f"{shards.entries[2].name} {words}"):
        LocalEngine().add_up(count_users, shards)


def test_a_read_that_is_not_whole_is_tried_again(interactions, tmp_path, monkeypatch):
    """The rest of the file comes while the reader pauses."""
    shards = write_shards(interactions, str(tmp_path), n_shards=3)
    path = tmp_path / shards.entries[1].name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    monkeypatch.setattr("time.sleep", lambda seconds: path.write_bytes(whole))
    assert LocalEngine().add_up(count_users, shards) == 898


def test_without_a_manifest_there_are_no_shards(tmp_path):
    with pytest.raises(DamagedShard, match=r"shards\.json is gone"):
        Shards.open(str(tmp_path))
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(DamagedShard, match="is no list of shards"):
        Shards.open(str(tmp_path))


def test_an_interrupted_writing_leaves_what_was_there(interactions, tmp_path):
    before = write_shards(interactions, str(tmp_path), n_shards=2)

    def interrupted():
        with ShardWriter(str(tmp_path), interactions.shape[1], 4) as writer:
            writer.add(interactions[:100])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Shards.open(str(tmp_path)) == before
    assert len(list(tmp_path.glob("*.parquet"))) == 2
