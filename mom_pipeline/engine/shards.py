"""Shards: the users of a data set in Parquet files, each user in one of them.

    shards.json                    sizes and fingerprints, written last
    shard-00000-<writing>.parquet  user, item, count and, where it is known, the day of the last
                                   event; ascending by user, then by item

The folder is a path or any URL that fsspec knows, so that every worker reads its own files.
"""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from typing import Self

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from scipy import sparse

from mom_pipeline.core.errors import MomError, VisitFailed
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.moments.users import UserRows, spread
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

MANIFEST = "shards.json"
PAIRS_PER_SHARD = 2_000_000
_SCHEMA = pa.schema([("user", pa.int64()), ("item", pa.int32()), ("count", pa.float64())])
_DAY = pa.field("day", pa.float64())
_USERS_PER_BLOCK = 262_144
# Of some 50 MB each; a process that makes many passes reads them once.
_SHARDS_IN_MEMORY = 20
# Before each new attempt at a read that failed half-way.
_PAUSES = (0.2, 0.4, 0.8)


class StoreFailed(VisitFailed):
    """The store of the shards cannot be read or written."""


class DamagedShard(StoreFailed):
    """A shard is missing, or is not what was written."""


@dataclass(frozen=True)
class ShardEntry:
    """The manifest's record of one file."""

    name: str
    n_users: int
    n_pairs: int
    sha256: str


@dataclass(frozen=True)
class Shards:
    """All shards of a data set. Small: this travels to the workers, and they read the files."""

    url: str  # folder or fsspec URL
    shape: tuple[int, int]  # all users, also those without a row, and items
    entries: tuple[ShardEntry, ...]
    with_days: bool = False  # whether the days of the interactions are known

    @classmethod
    def open(cls, url: str) -> Self:
        """Read the manifest. Raises DamagedShard when it is missing or malformed."""
        url = absolute(url)
        try:
            manifest = json.loads(_content(f"{url}/{MANIFEST}"))
            entries = tuple(ShardEntry(**entry) for entry in manifest["entries"])
            n_users, n_items = manifest["shape"]
            return cls(url, (n_users, n_items), entries, manifest["with_days"])
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedShard(f"{url}/{MANIFEST} is no list of shards: {error!r}") from error

    @property
    def n_pairs(self) -> int:
        return sum(entry.n_pairs for entry in self.entries)

    def read(self, index: int) -> UserRows:
        """Return the rows of one shard, from memory if it was read recently."""
        return _read(self.url, self.entries[index], self.shape[1])


@lru_cache(maxsize=_SHARDS_IN_MEMORY)
def _read(url: str, entry: ShardEntry, n_items: int) -> UserRows:
    table = pq.read_table(BytesIO(_content(f"{url}/{entry.name}", entry.sha256)))
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    users, items = columns["user"], columns["item"]
    begins = np.flatnonzero(np.diff(users, prepend=-1))
    indptr, shape = np.append(begins, len(users)).astype(np.int32), (len(begins), n_items)
    X = sparse.csr_array((columns["count"], items, indptr), shape=shape)
    days = columns.get(_DAY.name)
    last_days = None if days is None else sparse.csr_array((days, items, indptr), shape=shape)
    return UserRows(users[begins], X, last_days)


def _content(url: str, sha256: str = "") -> bytes:
    """Return the bytes of a file; a read that fails half-way or is not whole is tried again."""
    problem: StoreFailed
    for pause in (*_PAUSES, None):
        try:
            with store_errors(url), fsspec.open(url, "rb") as file:
                content: bytes = file.read()
            if sha256 in ("", sha256_of(content)):
                return content
            found = f"{len(content)} bytes found"
            problem = DamagedShard(
                f"{url} is not the file that was written ({found}); write the shards again"
            )
        except StoreFailed as error:
            problem = error
            if isinstance(error.__cause__, FileNotFoundError | PermissionError):
                break
        if pause is not None:
            time.sleep(pause)
    raise problem


def write_shards(
    X: Csr, url: str, *, n_shards: int | None = None, last_days: Csr | None = None
) -> Shards:
    """Write X (N, D), and the last days of its entries, as shards of two million interactions."""
    n_shards, with_days = n_shards or suitable_number(X.nnz), last_days is not None
    with ShardWriter(url, X.shape[1], n_shards, with_days=with_days) as writer:
        for users in cut(X.indptr, PAIRS_PER_SHARD, _USERS_PER_BLOCK):
            writer.add(X[users], None if last_days is None else last_days[users])
    return writer.shards


def suitable_number(n_pairs: int, n_workers: int = 1) -> int:
    """Return a number of shards: at least two per worker, none larger than PAIRS_PER_SHARD."""
    return max(-(-n_pairs // PAIRS_PER_SHARD), 2 * n_workers)


def shard_indices(users: Array, n_shards: int) -> Array:
    """Return the shard of each user, by a hash of the position: even, and always the same."""
    high = spread(users) >> np.uint64(32)
    return ((high * np.uint64(n_shards)) >> np.uint64(32)).astype(np.int64)


class ShardWriter:
    """Takes blocks of users; readers see the former manifest until the block ends well."""

    def __init__(self, url: str, n_items: int, n_shards: int, *, with_days: bool = False) -> None:
        self._url, self._n_items, self._with_days = absolute(url), n_items, with_days
        self._schema = _SCHEMA.append(_DAY) if with_days else _SCHEMA
        self._fs, self._folder = url_to_fs(url)
        writing = secrets.token_hex(4)
        self._names = [f"shard-{i:05d}-{writing}.parquet" for i in range(n_shards)]
        self._n_users, self._sizes = 0, np.zeros((n_shards, 2), dtype=np.int64)
        self._open = ExitStack()
        with store_errors(self._url):
            self._fs.makedirs(self._folder, exist_ok=True)
            self._writers = [self._writer(name) for name in self._names]

    def _writer(self, name: str) -> pq.ParquetWriter:
        file = self._open.enter_context(self._fs.open(f"{self._folder}/{name}", "wb"))
        writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        return self._open.enter_context(writer)

    def __enter__(self) -> Self:
        return self

    def add(self, block: Csr, last_days: Csr | None = None) -> None:
        """Add the next users, (users, D), empty rows without a shard, and their last days."""
        lengths = np.diff(block.indptr)
        users = np.repeat(np.arange(len(lengths)) + self._n_users, lengths)
        columns: list[Array] = [users, block.indices, block.data]
        if last_days is not None:
            columns.append(last_days.data)
        shards = shard_indices(users, len(self._writers))
        with store_errors(self._url):
            for shard in np.unique(shards):
                own = [column[shards == shard] for column in columns]
                arrays = [pa.array(c, t) for c, t in zip(own, self._schema.types, strict=True)]
                self._writers[shard].write_table(pa.Table.from_arrays(arrays, schema=self._schema))
                self._sizes[shard] += len(np.unique(own[0])), len(own[0])
        self._n_users += block.shape[0]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(Exception):  # the error that led here is the one to be told
                self._open.close()
                self._fs.rm([f"{self._folder}/{name}" for name in self._names])
            return
        with store_errors(self._url):
            self._open.close()
            paths = [f"{self._folder}/{name}" for name in self._names]
            sums = [sha256_of(self._fs.cat_file(path)) for path in paths]
            rows = zip(self._names, *self._sizes.T.tolist(), sums, strict=True)
            entries = tuple(ShardEntry(*row) for row in rows)
            shape = (self._n_users, self._n_items)
            self.shards = Shards(self._url, shape, entries, self._with_days)
            manifest = json.dumps(asdict(self.shards)).encode()
            self._fs.pipe_file(f"{self._folder}/{MANIFEST}", manifest)
            self._fs.invalidate_cache(self._folder)
            for path in self._fs.glob(f"{self._folder}/shard-*.parquet"):
                if path.rpartition("/")[2] not in self._names:  # of an earlier writing
                    self._fs.rm(path)


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Turn what a file system raises, of no common class, into one sentence that names the URL."""
    try:
        yield
    except MomError:
        raise
    except FileNotFoundError as error:
        raise DamagedShard(f"{url} is gone ({error}); write the shards again") from error
    except Exception as error:
        raise StoreFailed(
            f"the shard store {url} failed: {type(error).__name__}: {error}; its credentials are "
            "read from the environment of this process and of every worker"
        ) from error


def absolute(url: str) -> str:
    """Return a path or URL that means the same in every process, whatever its folder."""
    fs, path = url_to_fs(url)
    return str(path if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(path))
