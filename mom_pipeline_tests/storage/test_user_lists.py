import gzip

import numpy as np
import pytest

from mom_pipeline.storage.errors import DatasetError
from mom_pipeline.storage.user_lists import read_split


def test_both_matrices_share_users_and_items(tmp_path):
    (tmp_path / "train.txt").write_text("0 2 0\n1\n3 1 1\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"1 4\n"))
    train, test = read_split(tmp_path / "train.txt", tmp_path / "test.txt.gz")
    expected = np.zeros((4, 5))
    expected[[0, 0, 3], [2, 0, 1]] = 1
    np.testing.assert_array_equal(train.toarray(), expected)
    assert test.shape == (4, 5)
    assert test[1, 4] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 a\n", "line 1: expected"),
        ("0 1\n\n", "line 2"),
        ("0 -3\n", "negative"),
        ("", "no lines"),
    ],
)
def test_other_formats_are_refused(tmp_path, text, message):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_split(tmp_path / "bad.txt", tmp_path / "bad.txt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"train\.txt does not exist"):
        read_split(tmp_path / "train.txt", tmp_path / "test.txt")
