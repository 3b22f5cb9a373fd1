"""Shards hold every user once, and say which of them is missing or damaged."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.moments.users import UserRows
from mom_pipeline.core.types import Csr
from mom_pipeline.engine import DamagedShard, LocalEngine, Shards, ShardWriter, write_shards
from mom_pipeline.engine.shards import MANIFEST, shard_indices, suitable_number


def put_together(shards: Shards) -> Csr:
    """Return all rows at their positions."""
    dense = np.zeros(shards.shape)
    for index in range(len(shards.entries)):
        rows = shards.read(index)
        assert not dense[rows.positions].any()
        dense[rows.positions] = rows.X.toarray()
    return sparse.csr_array(dense)


def count_users(rows: UserRows) -> int:
    return len(rows.positions)


def test_every_row_comes_back(interactions: Csr, shards: Shards) -> None:
    again = put_together(Shards.open(shards.url))
    assert shards.shape == interactions.shape
    assert (again != interactions).nnz == 0
    assert shards.n_pairs == interactions.nnz


def test_users_are_spread_evenly_and_by_their_hash(interactions: Csr, shards: Shards) -> None:
    sizes = [entry.n_users for entry in shards.entries]
    assert max(sizes) < 1.1 * min(sizes)
    for index in range(5):
        assert set(shard_indices(shards.read(index).positions, 5)) == {index}


def test_blocks_of_users_make_the_same_shards(interactions: Csr, tmp_path: Path) -> None:
    with ShardWriter(str(tmp_path), interactions.shape[1], 3) as writer:
        for start in range(0, interactions.shape[0], 250):
            writer.add(interactions[start : start + 250])
    assert (put_together(writer.shards) != interactions).nnz == 0


def test_any_url_of_fsspec_will_do_and_a_relative_path_is_made_absolute(
    interactions: Csr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = write_shards(interactions, "memory://some/shards", n_shards=2)
    assert (put_together(Shards.open(shards.url)) != interactions).nnz == 0
    monkeypatch.chdir(tmp_path)
    shards = write_shards(interactions, "here", n_shards=2)
    assert shards.url == Shards.open("here").url == str(tmp_path / "here")


def test_shards_without_users_add_nothing(tmp_path: Path) -> None:
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
def test_a_damaged_or_missing_shard_is_named(
    interactions: Csr, tmp_path: Path, damage, words: str
) -> None:
    shards = write_shards(interactions, str(tmp_path), n_shards=3)
    path = tmp_path / shards.entries[2].name
    content = path.read_bytes()
    path.unlink()
    if damage:
        path.write_bytes(damage(content))
    with pytest.raises(DamagedShard, match=f"{shards.entries[2].name} {words}"):
        LocalEngine().add_up(count_users, shards)


def test_a_read_that_is_not_whole_is_tried_again(
    interactions: Csr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the file comes while the reader pauses."""
    shards = write_shards(interactions, str(tmp_path), n_shards=3)
    path = tmp_path / shards.entries[1].name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    monkeypatch.setattr("time.sleep", lambda seconds: path.write_bytes(whole))
    assert LocalEngine().add_up(count_users, shards) == 898


def test_without_a_manifest_there_are_no_shards(tmp_path: Path) -> None:
    with pytest.raises(DamagedShard, match=r"shards\.json is gone"):
        Shards.open(str(tmp_path))
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(DamagedShard, match="is no list of shards"):
        Shards.open(str(tmp_path))


def test_an_interrupted_writing_leaves_what_was_there(interactions: Csr, tmp_path: Path) -> None:
    before = write_shards(interactions, str(tmp_path), n_shards=2)

    def interrupted() -> None:
        with ShardWriter(str(tmp_path), interactions.shape[1], 4) as writer:
            writer.add(interactions[:100])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Shards.open(str(tmp_path)) == before
    assert len(list(tmp_path.glob("*.parquet"))) == 2


def test_writing_again_replaces(interactions: Csr, tmp_path: Path) -> None:
    write_shards(interactions, str(tmp_path), n_shards=4)
    changed = interactions.copy()
    changed.data += 1
    write_shards(changed, str(tmp_path), n_shards=2)
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert (put_together(Shards.open(str(tmp_path))) != changed).nnz == 0


def test_rows_of_other_items_are_refused(interactions: Csr, tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInteractions, match="expected rows of 12 items, found 700"),
        ShardWriter(str(tmp_path), 12, 2) as writer,
    ):
        writer.add(interactions)
    with pytest.raises(InvalidSetting, match="n_shards must be at least 1"):
        ShardWriter(str(tmp_path), 12, 0)


def test_the_number_of_shards_suits_the_data_and_the_workers() -> None:
    assert suitable_number(100) == 2
    assert suitable_number(100, n_workers=4) == 8
    assert suitable_number(20_000_001) == 11
