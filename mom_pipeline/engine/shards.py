"""Shards: the users of a data set in Parquet files, each user in one of them.

    shards.json                    sizes and fingerprints, written last
    shard-00000-<writing>.parquet  user, item, count and, where it is known, the day of the last
                                   event; ascending by user, then by item

The folder is a path or any URL that fsspec knows, so that every worker reads its own files.
"""

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting, MomError, VisitFailed
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.moments.users import UserRows, spread
from mom_pipeline.core.threads import cut
from mom_pipeline.core.types import Array, Csr

MANIFEST = "shards.json"
PAIRS_PER_SHARD = 2_000_000
_FORMAT = 1
_SCHEMA = pa.schema([("user", pa.int64()), ("item", pa.int32()), ("count", pa.float64())])
_DAY = pa.field("day", pa.float64())
_USERS_PER_BLOCK = 262_144
_CACHE_BYTES = 1_000_000_000
# A read that fails is tried again, after twice the pause each time.
_ATTEMPTS, _PAUSE_SECONDS = 4, 0.2


class StoreFailed(VisitFailed):
    """The store of the shards cannot be read or written."""


class DamagedShard(StoreFailed):
    """A shard is missing, or is not what was written."""


@dataclass(frozen=True, kw_only=True)
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
    with_days: whether the days of the pairs are known.
    """

    url: str
    shape: tuple[int, int]
    entries: tuple[ShardEntry, ...]
    with_days: bool = False

    @classmethod
    def open(cls, url: str) -> Self:
        """Read the manifest. Raises DamagedShard when it is missing or malformed."""
        url = absolute(url)
        try:
            manifest = json.loads(read_file(f"{url}/{MANIFEST}", lambda content: True))
            if manifest["format"] != _FORMAT:
                raise ValueError(f"format {manifest['format']}, expected {_FORMAT}")
            entries = tuple(ShardEntry(**entry) for entry in manifest["shards"])
            shape = int(manifest["n_users"]), int(manifest["n_items"])
            return cls(url, shape, entries, bool(manifest.get("with_days", False)))
        except DamagedShard as error:
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
            "with_days": self.with_days,
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
        content = read_file(url, lambda content: sha256_of(content) == entry.sha256)
        if sha256_of(content) != entry.sha256:
            raise DamagedShard(
                f"shard {url} is not the file of {entry.n_users} users and {entry.n_pairs} "
                f"pairs that was written ({len(content)} bytes found); write the shards again"
            )
        return self._rows(pq.read_table(BytesIO(content)), index)

    def _rows(self, table: pa.Table, index: int) -> ShardRows:
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        users, items = columns["user"], columns["item"]
        begins = np.flatnonzero(np.diff(users, prepend=-1))
        indptr = np.append(begins, len(users)).astype(np.int32)
        shape = len(begins), self.shape[1]
        X = sparse.csr_array((columns["count"], items, indptr), shape=shape)
        days = columns.get(_DAY.name)
        last_days = None if days is None else sparse.csr_array((days, items, indptr), shape=shape)
        name = self.entries[index].name
        return ShardRows(users[begins], X, last_days, index=index, name=name)


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
    X, days = rows.X, rows.last_days
    own = rows.positions.nbytes + X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return own if days is None else own + days.data.nbytes


_recently_read = _RecentlyRead(_CACHE_BYTES)


def write_shards(
    X: Csr, url: str, *, n_shards: int | None = None, last_days: Csr | None = None
) -> Shards:
    """Write a matrix as shards of some two million pairs each; a block of users at a time.

    X: (N, D).  last_days: (N, D) the day of the last event of every entry of X.
    """
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
    """Takes blocks of users one after another, so that they need not fit into memory.

    The manifest is written when the `with` block ends without an error. Until then, and after
    an error, readers see the shards that were there before, or none.
    """

    def __init__(self, url: str, n_items: int, n_shards: int, *, with_days: bool = False) -> None:
        if n_shards < 1:
            raise InvalidSetting(f"n_shards must be at least 1, found {n_shards}")
        self._url, self._n_items = absolute(url), n_items
        self._schema = _SCHEMA.append(_DAY) if with_days else _SCHEMA
        self._fs, self._folder = url_to_fs(url)
        writing = secrets.token_hex(4)
        self._names = [f"shard-{i:05d}-{writing}.parquet" for i in range(n_shards)]
        with store_errors(self._url):
            self._fs.makedirs(self._folder, exist_ok=True)
            self._files = [self._fs.open(self._path(name), "wb") for name in self._names]
            self._writers = [
                pq.ParquetWriter(file, self._schema, compression="zstd") for file in self._files
            ]
        self._n_users = 0
        self._sizes = np.zeros((n_shards, 2), dtype=np.int64)

    def __enter__(self) -> Self:
        return self

    def add(self, block: Csr, last_days: Csr | None = None) -> None:
        """Add the next users. block: (users, D); an empty row is a user without a shard.

        last_days: of the same entries, where the writer was made for days.
        """
        if block.shape[1] != self._n_items:
            raise InvalidInteractions(
                f"expected rows of {self._n_items} items, found {block.shape[1]}"
            )
        lengths = np.diff(block.indptr)
        users = np.repeat(np.arange(len(lengths)) + self._n_users, lengths)
        shards = shard_indices(users, len(self._writers))
        order = np.argsort(shards, kind="stable")
        edges = np.searchsorted(shards[order], np.arange(len(self._writers) + 1))
        columns: list[Array] = [users, block.indices, block.data]
        if last_days is not None:
            columns.append(last_days.data)
        for shard in range(len(self._writers)):
            events = order[edges[shard] : edges[shard + 1]]
            if len(events):
                with store_errors(self._url):
                    self._append(shard, [column[events] for column in columns])
        self._n_users += block.shape[0]

    def _append(self, shard: int, columns: list[Array]) -> None:
        arrays = [pa.array(c, t) for c, t in zip(columns, self._schema.types, strict=True)]
        self._writers[shard].write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._sizes[shard] += len(np.unique(columns[0])), len(columns[0])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            with suppress(Exception):  # the error that led here is the one to be told
                self._close()
                self._remove(self._names)
            return
        with store_errors(self._url):
            self._close()
            entries = tuple(
                ShardEntry(name, int(n_users), int(n_pairs), self._sha256(name))
                for name, (n_users, n_pairs) in zip(self._names, self._sizes, strict=True)
            )
            self.shards = Shards(
                self._url, (self._n_users, self._n_items), entries, self._schema is not _SCHEMA
            )
            manifest = json.dumps(self.shards.manifest(), indent=1)
            write_file(f"{self._url}/{MANIFEST}", manifest.encode())
            self._remove(self._earlier_files())

    def _close(self) -> None:
        for closable in [*self._writers, *self._files]:
            closable.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _sha256(self, name: str) -> str:
        with self._fs.open(self._path(name), "rb") as file:
            return sha256_of(file.read())

    def _earlier_files(self) -> list[str]:
        """Return the files of shards that were written to the same folder before."""
        self._fs.invalidate_cache(self._folder)
        names = (path.rpartition("/")[2] for path in self._fs.glob(self._path("shard-*.parquet")))
        return [name for name in names if name not in self._names]

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._fs.rm(self._path(name))


def read_file(url: str, is_whole: Callable[[bytes], bool]) -> bytes:
    """Return the content of a file; a read that fails half-way or is not whole is tried again.

    What is not whole at the last attempt is returned all the same. Raises DamagedShard for a
    file that is not there, StoreFailed where the store does not let itself be read.
    """
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        try:
            with store_errors(url), fsspec.open(url, "rb") as file:
                content: bytes = file.read()
            if last or is_whole(content):
                return content
        except StoreFailed as error:
            if last or isinstance(error.__cause__, FileNotFoundError | PermissionError):
                raise
        time.sleep(_PAUSE_SECONDS * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into one sentence that names the URL.

    Any exception: those of an object store's client are of no common class.
    """
    try:
        yield
    except MomError:
        raise
    except FileNotFoundError as error:
        raise DamagedShard(f"{url} is gone ({error}); write the shards again") from error
    except Exception as error:
        what = f"the shard store {url} failed: {type(error).__name__}: {error}"
        if _is_refusal(error):
            what += (
                "; its credentials are read from the environment of this process and of every "
                "worker, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: correct them there"
            )
        raise StoreFailed(what) from error


def _is_refusal(error: Exception) -> bool:
    """Whether a store wants other credentials; clients name that in different ways."""
    words = f"{type(error).__name__} {error}"
    return isinstance(error, PermissionError) or any(
        name in words for name in ("Credentials", "Signature", "AccessKey", "AccessDenied")
    )


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
