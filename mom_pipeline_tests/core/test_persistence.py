"""Arrays in one file: shrunk where that pays, the same bytes for the same arrays."""

import zipfile
from io import BytesIO

import numpy as np
import pytest

from mom_pipeline.core.persistence import mapped_arrays, write_npz

ARRAYS = {
    "counts": np.arange(200_000) // 1000,
    "noise": np.random.default_rng(0).standard_normal(50_000),
    "zeros": np.zeros((300, 200), dtype=np.float32),
    "by_column": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "number": np.array(3.5),
    "empty": np.empty((0, 4)),
}


@pytest.fixture
def path(tmp_path):
    with (tmp_path / "arrays.npz").open("wb") as file:
        write_npz(file, ARRAYS)
    return tmp_path / "arrays.npz"


def test_what_shrinks_is_shrunk_and_noise_is_not(path):
    with zipfile.ZipFile(path) as members:
        size = {m.filename: (m.compress_size, m.file_size) for m in members.infolist()}
    assert size["counts.npy"][0] < size["counts.npy"][1] / 10
    assert size["zeros.npy"][0] < size["zeros.npy"][1] / 10
    assert size["noise.npy"][0] == size["noise.npy"][1]


def test_what_is_written_is_read_and_mapped_whether_shrunk_or_not(path):
    mapped = mapped_arrays(path)
    with np.load(path, allow_pickle=False) as file:
        assert sorted(file.files) == sorted(mapped) == sorted(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(mapped[name], array)
            np.testing.assert_array_equal(file[name], array)
            assert file[name].dtype == mapped[name].dtype == array.dtype
    assert isinstance(mapped["noise"], np.memmap)
    assert not isinstance(mapped["counts"], np.memmap)


def test_equal_arrays_give_equal_bytes_and_python_objects_are_refused(path):
    again = BytesIO()
    write_npz(again, ARRAYS)
    assert again.getvalue() == path.read_bytes()
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(BytesIO(), {"x": np.array([{}], dtype=object)})
