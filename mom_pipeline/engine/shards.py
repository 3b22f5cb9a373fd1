"""Shards: the users of a data set in Parquet files, each user in one of them.

    shards.json                    sizes and fingerprints, written last
    shard-00000-<writing>.parquet  user, item, count; ascending by user, then by item

on a path or on any URL that fsspec knows, so that every worker reads its own.
"""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from threading import Lock
from typing import Any, Self

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.moments.halves import spread
from mom_pipeline.core.moments.users import UserRows
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.engine.errors import DamagedShard
from mom_pipeline.engine.files import absolute

MANIFEST = "shards.json"
_FORMAT = 1
_CACHE_BYTES = 1_000_000_000


@dataclass(frozen=True)
class ShardRows(UserRows):
    """The rows of one shard, with its place among the shards and the name of its file."""

    place: int
    name: str


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest says about a file."""

    name: str
    n_users: int
    n_pairs: int
    sha256: str


@dataclass(frozen=True)
class Shards:
    """All shards of a data set. Small: this travels to the workers, and they read the files.

    url: folder or fsspec URL.  shape: all users, also those without a row, and items.
    """

    url: str
    shape: tuple[int, int]
    entries: tuple[ShardEntry, ...]

    @classmethod
    def open(cls, url: str) -> Self:
        """Read the manifest; DamagedShard when there is none, or none of ours."""
        url = absolute(url)
        try:
            with fsspec.open(f"{url}/{MANIFEST}", "rb") as file:
                said = json.loads(file.read())
            if said["format"] != _FORMAT:
                raise ValueError(f"format {said['format']}, expected {_FORMAT}")
            entries = tuple(ShardEntry(**entry) for entry in said["shards"])
            return cls(url, (int(said["n_users"]), int(said["n_items"])), entries)
        except FileNotFoundError as error:
            raise DamagedShard(
                f"there is no {MANIFEST} in {url}: write the shards first, or to the end"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedShard(f"{url}/{MANIFEST} is no list of shards: {error!r}") from error

    def manifest(self) -> dict[str, Any]:
        """Return what `open` reads."""
        n_users, n_items = self.shape
        return {
            "format": _FORMAT,
            "n_users": n_users,
            "n_items": n_items,
            "shards": [asdict(entry) for entry in self.entries],
        }

    @property
    def n_pairs(self) -> int:
        """Return the number of user-item pairs."""
        return sum(entry.n_pairs for entry in self.entries)

    def read(self, place: int) -> ShardRows:
        """Return the rows of one shard, from memory if it was read lately."""
        entry = self.entries[place]
        key = self.url, place, entry.sha256
        return _lately_read.get(key, lambda: self._read(place, entry))

    def _read(self, place: int, entry: ShardEntry) -> ShardRows:
        where = f"{self.url}/{entry.name}"
        try:
            with fsspec.open(where, "rb") as file:
                content = file.read()
        except OSError as error:
            raise DamagedShard(
                f"shard {where} cannot be read: {error}; write the shards anew"
            ) from error
        if sha256_of(content) != entry.sha256:
            raise DamagedShard(
                f"shard {where} is not the file of {entry.n_users} users and {entry.n_pairs} "
                f"pairs that was written ({len(content)} bytes found); write the shards anew"
            )
        positions, X = self._rows(pq.read_table(BytesIO(content)))
        return ShardRows(positions, X, place, entry.name)

    def _rows(self, table: pa.Table) -> tuple[Array, Csr]:
        users, items, counts = (
            table.column(column).to_numpy() for column in ("user", "item", "count")
        )
        begins = np.flatnonzero(np.diff(users, prepend=-1))
        indptr = np.append(begins, len(users)).astype(np.int32)
        X = sparse.csr_array((counts, items, indptr), shape=(len(begins), self.shape[1]))
        return users[begins], X


def shard_of(users: Array, n_shards: int) -> Array:
    """Return the shard of each user, by a hash of the position: even, and the same forever."""
    high = spread(users) >> np.uint64(32)
    return ((high * np.uint64(n_shards)) >> np.uint64(32)).astype(np.int64)


class _LatelyRead:
    """The shards that this process used last, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[tuple[str, int, str], ShardRows] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, int, str], read: Callable[[], ShardRows]) -> ShardRows:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        rows = read()
        with self._lock:
            self._held[key] = rows
            while sum(map(_bytes_of, self._held.values())) > self._max_bytes:
                self._held.popitem(last=False)
        return rows


def _bytes_of(rows: ShardRows) -> int:
    X = rows.X
    return rows.positions.nbytes + X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


_lately_read = _LatelyRead(_CACHE_BYTES)
