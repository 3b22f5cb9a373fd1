"""Files below a path or any URL that fsspec knows."""

from pathlib import Path

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from mom_pipeline.core.files import writing


def write_whole(url: str, content: bytes) -> None:
    """Write a file that appears whole or not at all, also when two do so at a time."""
    fs, path = url_to_fs(url)
    if isinstance(fs, LocalFileSystem):  # its own goes through /tmp: a copy, not a rename
        with writing(Path(path)) as out:
            out.write(content)
        return
    fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    file = fs.open(path, "wb", autocommit=False)
    try:
        file.write(content)
        file.close()
        file.commit()
    except BaseException:
        file.close()
        file.discard()
        raise


def absolute(url: str) -> str:
    """Return a path or URL that means the same in every process, whatever its folder."""
    fs, path = url_to_fs(url)
    return str(path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path))
