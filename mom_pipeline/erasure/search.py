"""How an id can be written in files, and the search for its bytes, also inside compressed ones."""

import gzip
import html
import json
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np

from mom_pipeline.warehouse.connection import Connection, literal_path

_CHUNK = 1 << 22
# Ids stand side by side in these, with nothing between them.
_SIDE_BY_SIDE = (".npz", ".duckdb")

# A shorter id is a part of countless other words and numbers: as "7" is of 2024-03-07.
_DISTINCTIVE_CHARACTERS = 5
_HEAD = 5
# Of thousands of short numbers some stand in any binary file by chance.
_MANY, _CHANCE_CHARACTERS = 10, 9
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"PAR1")
_BINARY = (*_SIDE_BY_SIDE, ".db")


def spellings(user_id: str) -> list[str]:
    """Return every way in which a file of the project can hold an id."""
    in_json = [json.dumps(user_id, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    twice = [json.dumps(text, ensure_ascii=True)[1:-1] for text in in_json]
    written = [user_id, user_id.replace('"', '""'), html.escape(user_id), *in_json, *twice]
    return sorted(set(written), key=lambda text: (-len(text), text))


# Whether a text, in place of {}, has one of the wanted ids as a word of its own: user-1 is not in
# user-17. Only where the id is found its pattern is looked at.
MENTIONED = (
    "EXISTS (SELECT 1 FROM spelt WHERE CASE WHEN contains({0}, spelling) "
    "THEN regexp_matches({0}, pattern) ELSE false END)"
)


@contextmanager
def wanted_users(connection: Connection, user_ids: Collection[str]) -> Iterator[None]:
    """The tables `wanted` (user_id) and `spelt` (spelling, pattern) for the block."""
    edge, ids = r"[^\p{L}\p{N}_-]", list(user_ids)
    texts = [text for user_id in ids for text in spellings(user_id)]
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE wanted AS SELECT unnest($ids::VARCHAR[]) AS user_id",
        {"ids": ids},
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE spelt AS "
        "SELECT unnest($texts::VARCHAR[]) AS spelling, unnest($patterns::VARCHAR[]) AS pattern",
        {
            "texts": texts,
            "patterns": [rf"(?:^|{edge})(?:{re.escape(text)})(?:$|{edge})" for text in texts],
        },
    )
    yield
    for table in ("wanted", "spelt"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def is_distinctive(user_id: str) -> bool:
    """Whether finding the id inside of a longer text means that the text is about the user."""
    return len(user_id) >= _DISTINCTIVE_CHARACTERS


def files_with(folder: Path, user_ids: Collection[str]) -> list[str]:
    """Every file below a folder whose name or content has the bytes of an id, in order.

    gzip, zip (.npz) and Parquet are searched inside. An id of digits alone, decimal or not, counts
    where it is a word of its own: 17850 is also in 0.0017850 and in many a hash, and not where ids
    stand side by side. Of many ids short ones of digits are sought in text alone.
    """
    sought = _Sought(user_ids)
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if sought.is_in(path.name.encode()) or (path.is_file() and _holds(path, sought))
    ]


class _Sought:
    """The spellings of ids as bytes, found by their first bytes: as fast for many as for one."""

    def __init__(self, user_ids: Collection[str]) -> None:
        self._by_head: dict[bytes, list[tuple[bytes, bool]]] = {}
        self._by_chance = _CHANCE_CHARACTERS if len(user_ids) > _MANY else 0
        self.longest = 1
        for user_id in user_ids:
            word = re.fullmatch(r"[0-9a-fA-F]+", user_id) is not None
            # The last is text inside of a numpy array.
            written = [*(t.encode() for t in spellings(user_id)), user_id.encode("utf-32-le")]
            for text in written:
                self._by_head.setdefault(text[:_HEAD], []).append((text, word))
                self.longest = max(self.longest, len(text))
        known = [int.from_bytes(head, "big") for head in self._by_head if len(head) == _HEAD]
        self._heads = np.sort(np.array(known, dtype=np.int64))

    def is_in(self, data: bytes, *, side_by_side: bool = False, is_binary: bool = False) -> bool:
        """Whether an id is there. side_by_side: nothing has to stand between ids."""
        by_chance = self._by_chance if is_binary else 0
        return any(self._at(data, i, side_by_side, by_chance) for i in self._candidates(data))

    def _candidates(self, data: bytes) -> list[int]:
        """Where the first bytes of an id are."""
        if not len(self._heads) or len(data) < _HEAD:
            return []
        letters = np.frombuffer(data, dtype=np.uint8)
        firsts = np.zeros(1 << 16, dtype=bool)
        firsts[self._heads >> 8 * (_HEAD - 2)] = True
        n = len(letters) - _HEAD + 1
        pairs = letters[:n].astype(np.uint16) << 8 | letters[1 : n + 1]
        near = np.flatnonzero(firsts[pairs])
        keys = np.zeros(len(near), dtype=np.int64)
        for offset in range(_HEAD):
            keys = keys << 8 | letters[near + offset]
        found = np.searchsorted(self._heads, keys)
        found[found == len(self._heads)] = 0
        return [int(i) for i in near[self._heads[found] == keys]]

    def _at(self, data: bytes, i: int, side_by_side: bool, by_chance: int) -> bool:
        for text, word in self._by_head[data[i : i + _HEAD]]:
            if data.startswith(text, i) and not (word and len(text) < by_chance):
                around = data[max(i - 1, 0) : i], data[i + len(text) : i + len(text) + 2]
                if not word or not (side_by_side or _goes_on(*around)):
                    return True
        return False


def _goes_on(before: bytes, after: bytes) -> bool:
    """Whether digits are a part of a longer word or number."""
    return bool(re.match(rb"[\w.]", before) or re.match(rb"\w|\.\d", after))


def _holds(path: Path, sought: _Sought) -> bool:
    before, side_by_side = b"", path.suffix in _SIDE_BY_SIDE
    for chunk, is_binary in _contents(path):
        data = before + chunk
        if sought.is_in(data, side_by_side=side_by_side, is_binary=is_binary):
            return True
        before = data[-sought.longest - 2 :]
    return False


def _contents(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The bytes of a file, and as they are inside as far as it is whole; whether binary."""
    binary = path.suffix in _BINARY
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(0)
        while chunk := stream.read(_CHUNK):
            yield chunk, binary or head.startswith(_PACKED)
    try:
        yield from ((inside, binary) for inside in _unpacked(path, head))
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
