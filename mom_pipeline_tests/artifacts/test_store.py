"""Arrays in immutable files: what is read is what was written, or an error."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from mom_pipeline.artifacts.store import ArrayStore
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline_tests.running import flip

DAY = date(2024, 3, 1)
ARRAYS = {
    "rows": csr_array(np.array([[0.0, 2.5, 0.0], [1.0, 0.0, 0.0]])),
    "weights": np.array([0.25, 0.75], dtype=np.float32),
    "none": np.empty((0, 3)),
}


@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_come_back_and_equal_ones_have_one_file(tmp_path: Path, mapped: bool):
    store = ArrayStore(tmp_path, mapped=mapped)
    version = store.write("decomposition", DAY, ARRAYS)
    assert version.startswith("2024-03-01-")
    assert store.write("decomposition", DAY, ARRAYS) == version
    assert list(tmp_path.rglob("*")) == [
        tmp_path / "decomposition",
        store.path("decomposition", version),
    ]
    found = store.read("decomposition", version)
    assert found.keys() == ARRAYS.keys()
    assert (found["rows"] != ARRAYS["rows"]).nnz == 0
    assert found["rows"].shape == (2, 3)
    for name in ("weights", "none"):
        np.testing.assert_array_equal(found[name], ARRAYS[name])
        assert found[name].dtype == ARRAYS[name].dtype
    other = store.write("decomposition", DAY, {**ARRAYS, "weights": np.array([0.5, 0.5])})
    assert other != version


@pytest.mark.parametrize(
    "harm", [flip, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-20])]
)
@pytest.mark.parametrize("mapped", [False, True])
def test_what_is_not_what_was_written_is_never_read(tmp_path: Path, mapped: bool, harm):
    store = ArrayStore(tmp_path, mapped=mapped)
    version = store.write("decomposition", DAY, ARRAYS)
    harm(store.path("decomposition", version))
    with pytest.raises(DamagedArtifact):
        store.read("decomposition", version)


@pytest.mark.parametrize(
    "version", ["", "../../etc/passwd", "2024-03-01", "2024-03-01-" + "g" * 24]
)
def test_a_version_is_a_day_and_a_hash(tmp_path: Path, version: str):
    with pytest.raises(DamagedArtifact):
        ArrayStore(tmp_path).read("decomposition", version)
    with pytest.raises(ValueError, match="lower case"):
        ArrayStore(tmp_path).write("../models", DAY, ARRAYS)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path):
    store = ArrayStore(tmp_path)
    with pytest.raises(ValueError, match="pickle"):
        store.write("decomposition", DAY, {"a": np.ones(2), "b": np.array([{}], dtype=object)})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_all_files_but_the_kept_ones_go(tmp_path: Path):
    store = ArrayStore(tmp_path)
    versions = [store.write("decomposition", DAY, {"n": np.array([n])}) for n in range(3)]
    store.write("anchor", DAY, ARRAYS)
    assert store.remove_others({("decomposition", versions[1]), ("anchor", versions[0])}) == 3
    assert list(tmp_path.glob("*/*.npz")) == [store.path("decomposition", versions[1])]
