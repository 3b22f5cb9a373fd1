"""Shards: the users of a data set in Parquet files, each user in one of them.

    shards.json                    sizes and fingerprints, written last
    shard-00000-<writing>.parquet  user, item, count; ascending by user, then by item

The folder is a path or any URL that fsspec knows, so that every worker reads its own files.
"""

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from io import BytesIO
from threading import Lock
from types import TracebackType
from typing import Any, Self

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from scipy import sparse

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting, MomError
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.moments.users import UserRows, spread
from mom_pipeline.core.types import Array, Csr

MANIFEST = "shards.json"
PAIRS_PER_SHARD = 2_000_000
_FORMAT = 1
_SCHEMA = pa.schema([("user", pa.int64()), ("item", pa.int32()), ("count", pa.float64())])
_USERS_PER_BLOCK = 262_144
_CACHE_BYTES = 1_000_000_000


class DamagedShard(MomError):
    """A shard is missing, or is not what was written."""


@dataclass(frozen=True)
class ShardRows(UserRows):
    """The rows of one shard, with its index among the shards and the name of its file."""

    index: int
    name: str


@dataclass(frozen=True)
class ShardEntry:
    """The manifest's record of one file."""

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
        """Read the manifest. Raises DamagedShard when it is missing or malformed."""
        url = absolute(url)
        try:
            with fsspec.open(f"{url}/{MANIFEST}", "rb") as file:
                manifest = json.loads(file.read())
            if manifest["format"] != _FORMAT:
                raise ValueError(f"format {manifest['format']}, expected {_FORMAT}")
            entries = tuple(ShardEntry(**entry) for entry in manifest["shards"])
            return cls(url, (int(manifest["n_users"]), int(manifest["n_items"])), entries)
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
        return sum(entry.n_pairs for entry in self.entries)

    def read(self, index: int) -> ShardRows:
        """Return the rows of one shard, from memory if it was read recently."""
        key = self.url, index, self.entries[index].sha256
        return _recently_read.get(key, lambda: self._read(index))

    def _read(self, index: int) -> ShardRows:
        entry = self.entries[index]
        url = f"{self.url}/{entry.name}"
        try:
            with fsspec.open(url, "rb") as file:
                content = file.read()
        except OSError as error:
            raise DamagedShard(
                f"shard {url} cannot be read: {error}; write the shards again"
            ) from error
        if sha256_of(content) != entry.sha256:
            raise DamagedShard(
                f"shard {url} is not the file of {entry.n_users} users and {entry.n_pairs} "
                f"pairs that was written ({len(content)} bytes found); write the shards again"
            )
        positions, X = self._rows(pq.read_table(BytesIO(content)))
        return ShardRows(positions, X, index, entry.name)

    def _rows(self, table: pa.Table) -> tuple[Array, Csr]:
        users, items, counts = (table.column(name).to_numpy() for name in _SCHEMA.names)
        begins = np.flatnonzero(np.diff(users, prepend=-1))
        indptr = np.append(begins, len(users)).astype(np.int32)
        X = sparse.csr_array((counts, items, indptr), shape=(len(begins), self.shape[1]))
        return users[begins], X


class _RecentlyRead:
    """The shards that this process used last, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rows: OrderedDict[tuple[str, int, str], ShardRows] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, int, str], read: Callable[[], ShardRows]) -> ShardRows:
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
                return self._rows[key]
        rows = read()
        with self._lock:
            self._rows[key] = rows
            while sum(map(_n_bytes, self._rows.values())) > self._max_bytes:
                self._rows.popitem(last=False)
        return rows


def _n_bytes(rows: ShardRows) -> int:
    X = rows.X
    return rows.positions.nbytes + X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


_recently_read = _RecentlyRead(_CACHE_BYTES)


def write_shards(X: Csr, url: str, *, n_shards: int | None = None) -> Shards:
    """Write a matrix as shards of some two million pairs each. X: (N, D)."""
    with ShardWriter(url, X.shape[1], n_shards or suitable_number(X.nnz)) as writer:
        for start in range(0, X.shape[0], _USERS_PER_BLOCK):
            writer.add(X[start : start + _USERS_PER_BLOCK])
    return writer.shards


def suitable_number(n_pairs: int, n_workers: int = 1) -> int:
    """Return a number of shards: at least two per worker, none larger than PAIRS_PER_SHARD."""
    return max(-(-n_pairs // PAIRS_PER_SHARD), 2 * n_workers)


def shard_indices(users: Array, n_shards: int) -> Array:
    """Return the shard of each user, by a hash of the position: even, and always the same."""
    high = spread(users) >> np.uint64(32)
    return ((high * np.uint64(n_shards)) >> np.uint64(32)).astype(np.int64)


class ShardWriter:
    """Takes blocks of users one after another, so that they need not fit into memory.

    The manifest is written when the `with` block ends without an error. Until then, and after
    an error, readers see the shards that were there before, or none.
    """

    def __init__(self, url: str, n_items: int, n_shards: int) -> None:
        if n_shards < 1:
            raise InvalidSetting(f"n_shards must be at least 1, found {n_shards}")
        self._url, self._n_items = absolute(url), n_items
        self._fs, self._folder = url_to_fs(url)
        self._fs.makedirs(self._folder, exist_ok=True)
        writing = secrets.token_hex(4)
        self._names = [f"shard-{i:05d}-{writing}.parquet" for i in range(n_shards)]
        self._files = [self._fs.open(self._path(name), "wb") for name in self._names]
        self._writers = [
            pq.ParquetWriter(file, _SCHEMA, compression="zstd") for file in self._files
        ]
        self._n_users = 0
        self._sizes = np.zeros((n_shards, 2), dtype=np.int64)

    def __enter__(self) -> Self:
        return self

    def add(self, block: Csr) -> None:
        """Add the next users. block: (users, D); an empty row is a user without a shard."""
        if block.shape[1] != self._n_items:
            raise InvalidInteractions(
                f"expected rows of {self._n_items} items, found {block.shape[1]}"
            )
        lengths = np.diff(block.indptr)
        users = np.repeat(np.arange(len(lengths)) + self._n_users, lengths)
        shards = shard_indices(users, len(self._writers))
        order = np.argsort(shards, kind="stable")
        edges = np.searchsorted(shards[order], np.arange(len(self._writers) + 1))
        for shard in range(len(self._writers)):
            events = order[edges[shard] : edges[shard + 1]]
            if len(events):
                self._append(shard, (users[events], block.indices[events], block.data[events]))
        self._n_users += block.shape[0]

    def _append(self, shard: int, columns: tuple[Array, Array, Array]) -> None:
        arrays = [pa.array(c, t) for c, t in zip(columns, _SCHEMA.types, strict=True)]
        self._writers[shard].write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))
        self._sizes[shard] += len(np.unique(columns[0])), len(columns[0])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for closable in [*self._writers, *self._files]:
            closable.close()
        if kind is not None:
            self._remove(self._names)
            return
        entries = tuple(
            ShardEntry(name, int(n_users), int(n_pairs), self._sha256(name))
            for name, (n_users, n_pairs) in zip(self._names, self._sizes, strict=True)
        )
        self.shards = Shards(self._url, (self._n_users, self._n_items), entries)
        manifest = json.dumps(self.shards.manifest(), indent=1)
        write_file(f"{self._url}/{MANIFEST}", manifest.encode())
        self._remove(self._earlier_files())

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _sha256(self, name: str) -> str:
        with self._fs.open(self._path(name), "rb") as file:
            return sha256_of(file.read())

    def _earlier_files(self) -> list[str]:
        """Return the files of shards that were written to the same folder before."""
        names = (path.rpartition("/")[2] for path in self._fs.glob(self._path("shard-*.parquet")))
        return [name for name in names if name not in self._names]

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._fs.rm(self._path(name))


def write_file(url: str, content: bytes) -> None:
    """Write a file that appears whole or not at all, also when two processes write it.

    Through fsspec and not `artifacts`, which writes to the local disk only.
    """
    fs, path = url_to_fs(url)
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
