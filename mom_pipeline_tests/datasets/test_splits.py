import gzip

import numpy as np
import pytest

from mom_pipeline.datasets.published import read_split
from mom_pipeline.errors import DatasetError


def test_both_matrices_share_users_and_items(tmp_path):
    (tmp_path / "train.txt").write_text("0 2 0\n1\n3 1 1\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"1 4\n"))
    train, test = read_split(tmp_path / "train.txt", tmp_path / "test.txt.gz")
    expected = np.zeros((3, 4))
    expected[[0, 0, 2], [2, 0, 1]] = 1
    np.testing.assert_array_equal(train.toarray(), expected)
    assert test.toarray().tolist() == [[0] * 4, [0, 0, 0, 1], [0] * 4]


def test_large_numbers_take_no_room(tmp_path):
    (tmp_path / "train.txt").write_text(f"7 {2**63 - 1} 5\n")
    train, test = read_split(tmp_path / "train.txt", tmp_path / "train.txt")
    assert train.toarray().tolist() == test.toarray().tolist() == [[1, 1]]


@pytest.mark.parametrize(
    "content",
    [
        *(b"0 a\n", b"0 1\n\n", b"0 -3\n", f"0 {2**63}\n".encode(), b"", b"0 1 \x80\n"),
        gzip.compress(b"0 1 2\n" * 999, mtime=0)[:-9],
        gzip.compress(b"0 1 2\n", mtime=0)[:10] + b"\xff" * 30,
    ],
)
def test_other_formats_and_damaged_files_are_refused(tmp_path, content):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(DatasetError, match=r"bad\.txt must hold lines of `user item item"):
        read_split(tmp_path / "bad.txt", tmp_path / "bad.txt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"train\.txt does not exist"):
        read_split(tmp_path / "train.txt", tmp_path / "test.txt")
