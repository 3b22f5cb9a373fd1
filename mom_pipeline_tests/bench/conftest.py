import gzip

import pytest


@pytest.fixture
def publish(tmp_path):
    """Write a log where and as MovieTweetings is published: user::item::rating::time."""

    def write(lines):
        (tmp_path / "movietweetings").mkdir()
        path = tmp_path / "movietweetings" / "ratings.dat.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode()))

    return write
