"""Looking for the bytes of an id in every file, also inside of compressed ones."""

import gzip
import re
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb

from mom_pipeline.settings import Settings
from mom_pipeline.storage.erasure.spellings import spellings
from mom_pipeline.storage.scratch import is_running
from mom_pipeline.storage.warehouse import literal_path

_LEFT_BEHIND = re.compile(r"\..+\.(\d+)\.tmp(?:\.wal)?|\.new-(\d+)|[a-z]+-(\d+)")
_CHUNK = 1 << 22


def places_with(folder: Path, user_id: str) -> list[str]:
    """Every file below a folder whose name or content has the bytes of an id, in order.

    gzip, zip (.npz) and Parquet are looked into.
    """
    wanted = [text.encode() for text in spellings(user_id)]
    wanted += [user_id.encode("utf-32-le")]  # text inside of a numpy array
    longest = max(map(len, wanted))
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if user_id in path.name or (path.is_file() and _holds(path, wanted, longest)):
            found.append(name)
    return found


def remove_left_behind(settings: Settings) -> Counter[str]:
    """Remove temporary files and folders of processes that were killed, and DuckDB's own."""
    counts: Counter[str] = Counter()
    places = [*settings.data_dir.rglob(".*"), *settings.scratch_dir.glob("*")]
    for path in places:
        match = _LEFT_BEHIND.fullmatch(path.name)
        process = next((int(group) for group in match.groups() if group), 0) if match else 0
        of_duckdb = path.parent == settings.scratch_dir and path.name.startswith("duckdb_temp")
        if (process and not is_running(process)) or of_duckdb:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            counts["temporary files"] += 1
    return counts


def _holds(path: Path, wanted: list[bytes], longest: int) -> bool:
    before = b""
    for chunk in _contents(path):
        data = before + chunk
        if any(text in data for text in wanted):
            return True
        before = data[-longest:]
    return False


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file as they are, and then as they are inside."""
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(0)
        while chunk := stream.read(_CHUNK):
            yield chunk
    if head[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as packed:
                while chunk := packed.read(_CHUNK):
                    yield chunk
        except (OSError, EOFError, zlib.error):
            return
    elif head == b"PK\x03\x04" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield archive.read(name)
    elif head == b"PAR1":
        with duckdb.connect() as connection:
            rows = connection.execute(
                "SELECT to_json(r)::VARCHAR FROM read_parquet($path) AS r",
                {"path": literal_path(path)},
            )
            while batch := rows.fetchmany(10_000):
                yield "\n".join(text for (text,) in batch).encode()
