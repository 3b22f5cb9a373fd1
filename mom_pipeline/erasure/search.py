"""How an id can be written in files, and the search for its bytes, also inside compressed ones."""

import gzip
import html
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import duckdb

from mom_pipeline.warehouse.connection import literal_path

_CHUNK = 1 << 22
# Ids stand side by side in these, with nothing between them.
_SIDE_BY_SIDE = (".npz", ".duckdb")

# A shorter id is a part of countless other words and numbers: as "7" is of 2024-03-07.
_DISTINCTIVE_CHARACTERS = 5


def spellings(user_id: str) -> list[str]:
    """Return every way in which a file of the project can hold an id."""
    in_json = [json.dumps(user_id, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    twice = [json.dumps(text, ensure_ascii=True)[1:-1] for text in in_json]
    written = [user_id, user_id.replace('"', '""'), html.escape(user_id), *in_json, *twice]
    return sorted(set(written), key=lambda text: (-len(text), text))


def mention_in_sql(user_id: str) -> str:
    """Return a pattern of DuckDB for the id as a word of its own: user-1 is not in user-17."""
    edge = r"[^\p{L}\p{N}_-]"
    written = "|".join(re.escape(text) for text in spellings(user_id))
    return rf"(?:^|{edge})(?:{written})(?:$|{edge})"


def is_distinctive(user_id: str) -> bool:
    """Whether finding the id inside of a longer text means that the text is about the user."""
    return len(user_id) >= _DISTINCTIVE_CHARACTERS


def files_with(folder: Path, user_id: str) -> list[str]:
    """Every file below a folder whose name or content has the bytes of an id, in order.

    gzip, zip (.npz) and Parquet are searched inside. An id of digits alone, decimal or not, counts
    where it is a word of its own: 17850 is also in 0.0017850 and in many a hash.
    """
    wanted = [text.encode() for text in spellings(user_id)]
    wanted += [user_id.encode("utf-32-le")]  # text inside of a numpy array
    pattern = b"|".join(map(re.escape, wanted))
    anywhere, counted = re.compile(pattern), re.compile(pattern)
    if re.fullmatch(r"[0-9a-fA-F]+", user_id):
        counted = re.compile(rb"(?<![\w.])(?:" + pattern + rb")(?!\w|\.\d)")
    holding = []
    for path in sorted(folder.rglob("*")):
        sought = anywhere if path.suffix in _SIDE_BY_SIDE else counted
        in_name = counted.search(path.name.encode())
        if in_name or (path.is_file() and _holds(path, wanted, sought)):
            holding.append(str(path.relative_to(folder)))
    return holding


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
    """The bytes of a file as they are, and then as they are inside, of a damaged one as far."""
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(0)
        while chunk := stream.read(_CHUNK):
            yield chunk
    try:
        yield from _unpacked(path, head)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, duckdb.Error):
        return


def _unpacked(path: Path, head: bytes) -> Iterator[bytes]:
    if head[:2] == b"\x1f\x8b":
        with gzip.open(path) as packed:
            while chunk := packed.read(_CHUNK):
                yield chunk
    elif head == b"PK\x03\x04":
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
