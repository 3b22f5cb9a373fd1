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

from mom_pipeline.core.files import is_running
from mom_pipeline.erasure.spellings import spellings
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import literal_path

_LEFT_BEHIND = re.compile(r"\..+\.(\d+)\.tmp(?:\.wal)?|\.new-(\d+)|[a-z]+-(\d+)")
_CHUNK = 1 << 22
# Ids stand side by side in these, with nothing between them.
_SIDE_BY_SIDE = (".npz", ".duckdb")


def places_with(folder: Path, user_id: str) -> list[str]:
    """Every file below a folder whose name or content has the bytes of an id, in order.

    gzip, zip (.npz) and Parquet are looked into. An id of digits alone, decimal or not, counts
    where it is a word of its own: 17850 is also in 0.0017850 and in many a hash.
    """
    wanted = [text.encode() for text in spellings(user_id)]
    wanted += [user_id.encode("utf-32-le")]  # text inside of a numpy array
    pattern = b"|".join(map(re.escape, wanted))
    anywhere, counted = re.compile(pattern), re.compile(pattern)
    if re.fullmatch(r"[0-9a-fA-F]+", user_id):
        counted = re.compile(rb"(?<![\w.])(?:" + pattern + rb")(?!\w|\.\d)")
    found = []
    for path in sorted(folder.rglob("*")):
        sought = anywhere if path.suffix in _SIDE_BY_SIDE else counted
        in_name = counted.search(path.name.encode())
        if in_name or (path.is_file() and _holds(path, wanted, sought)):
            found.append(str(path.relative_to(folder)))
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


def _holds(path: Path, wanted: list[bytes], sought: re.Pattern[bytes]) -> bool:
    before, longest = b"", max(map(len, wanted))
    for chunk in _contents(path):
        data = before + chunk
        # The plain look comes first: it is many times faster than the pattern.
        if any(text in data for text in wanted) and sought.search(data):
            return True
        before = data[-longest - 1 :]
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
