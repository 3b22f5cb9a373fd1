"""Small arrays are read once, and never when their files have changed."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from mom_pipeline.artifacts import recent, store
from mom_pipeline.artifacts.store import ArtifactStore
from mom_pipeline.errors import DamagedArtifact

DAY = date(2024, 3, 1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were opened."""
    files: list[Path] = []
    open_file = store._read_array

    def note(path: Path, entry: dict[str, object], **how: bool) -> object:
        files.append(path)
        return open_file(path, entry, **how)

    monkeypatch.setattr(store, "_read_array", note)
    return files


def arrays() -> dict[str, object]:
    rng = np.random.default_rng(0)
    sparse = csr_array(random_array((30, 20), density=0.2, rng=rng))
    return {"dense": rng.random((5, 4)), "sparse": sparse, "number": np.float64(3.0)}


def test_an_artifact_is_read_once_and_equal_to_what_the_disk_holds(
    tmp_path: Path, read: list[Path]
) -> None:
    again = ArtifactStore(tmp_path)
    again.write("matrix", DAY, arrays(), "settings")
    recent.recent_arrays.clear()  # as in another process
    first, second = again.read("matrix", DAY), again.read("matrix", DAY)
    assert len(read) == 3
    assert first.version == second.version
    for name in ("dense", "number"):
        np.testing.assert_array_equal(first.arrays[name], second.arrays[name], strict=True)
    for part in ("data", "indices", "indptr"):
        ours, theirs = (getattr(a.arrays["sparse"], part) for a in (first, second))
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_what_was_written_is_not_read(tmp_path: Path, read: list[Path]) -> None:
    one = ArtifactStore(tmp_path)
    one.write("matrix", DAY, arrays(), "settings")
    one.read("matrix", DAY)
    other = ArtifactStore(tmp_path)
    other.read("matrix", DAY)
    assert read == []
    other.write("matrix", DAY, {"dense": np.zeros(3)}, "settings")
    assert one.read("matrix", DAY).dense["dense"].shape == (3,)


def test_who_changes_an_array_changes_no_other(tmp_path: Path) -> None:
    one, made = ArtifactStore(tmp_path), arrays()
    one.write("matrix", DAY, made, "settings")
    made["dense"][:] = -1.0
    read = one.read("matrix", DAY)
    assert (read.dense["dense"] >= 0).all()
    sparse = read.arrays["sparse"]
    for shared in (read.dense["dense"], sparse.data, sparse.indices, sparse.indptr):
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = -1
    read.arrays["sparse"].data = -sparse.data  # of this object alone
    assert (one.read("matrix", DAY).arrays["sparse"].data >= 0).all()


@pytest.mark.parametrize("largest", [0, 4_000_000])
def test_a_file_that_was_damaged_is_noticed(
    tmp_path: Path, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "_LARGEST", largest)
    one = ArtifactStore(tmp_path)
    version = one.write("matrix", DAY, arrays(), "settings").version
    one.read("matrix", DAY)
    path = tmp_path / "matrix" / str(DAY) / version / "dense.npz"
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedArtifact, match="differs"):
        one.read("matrix", DAY)


def test_large_arrays_and_too_many_are_left_to_the_disk(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "_LARGEST", 1000)
    monkeypatch.setattr(recent, "_ALL_TOGETHER", 2000)
    recent.recent_arrays.clear()
    one = ArtifactStore(tmp_path)
    for number, size in enumerate([1, 1, 1, 100]):
        one.write("matrix", date(2024, 3, 1 + number), {"a": np.zeros(100 * size)}, "settings")
    for number in (3, 2, 1, 4):
        one.read("matrix", date(2024, 3, number))
    assert [path.parts[-3] for path in read] == ["2024-03-01", "2024-03-04"]


def test_the_files_of_large_arrays_are_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "_LARGEST", 0)
    checked: list[Path] = []
    check = store.check_files

    def note(version: Path, manifest: dict[str, object]) -> None:
        checked.append(version)
        check(version, manifest)

    monkeypatch.setattr(store, "check_files", note)
    one = ArtifactStore(tmp_path)
    one.write("matrix", DAY, arrays(), "settings")
    one.read("matrix", DAY)
    assert checked == []  # by who wrote them
    recent.recent_arrays.clear()
    for _ in range(3):
        one.read("matrix", DAY)
    assert len(checked) == 1
