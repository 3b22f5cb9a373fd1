"""Writing shards: whole or not at all, from one matrix or from blocks of users."""

import json
import secrets
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from mom_pipeline.core.errors import InvalidInteractions, InvalidSetting
from mom_pipeline.core.files import sha256_of
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.engine.files import absolute, write_whole
from mom_pipeline.engine.shards import MANIFEST, ShardEntry, Shards, shard_of

_SCHEMA = pa.schema([("user", pa.int64()), ("item", pa.int32()), ("count", pa.float64())])
PAIRS_PER_SHARD = 2_000_000
_USERS_PER_BLOCK = 262_144


def write_shards(X: Csr, url: str, *, n_shards: int | None = None) -> Shards:
    """Write a matrix as shards of some two million pairs each. X: (N, D)."""
    with ShardWriter(url, X.shape[1], n_shards or suited_number(X.nnz)) as writer:
        for start in range(0, X.shape[0], _USERS_PER_BLOCK):
            writer.add(X[start : start + _USERS_PER_BLOCK])
    return writer.shards


def suited_number(n_pairs: int, n_workers: int = 1) -> int:
    """Return how many shards suit: a few for every worker, none too large."""
    return max(-(-n_pairs // PAIRS_PER_SHARD), 2 * n_workers)


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
        shards = shard_of(users, len(self._writers))
        order = np.argsort(shards, kind="stable")
        edges = np.searchsorted(shards[order], np.arange(len(self._writers) + 1))
        for shard, writer in enumerate(self._writers):
            events = order[edges[shard] : edges[shard + 1]]
            if len(events):
                self._append(shard, writer, block, users, events)
        self._n_users += block.shape[0]

    def _append(
        self, shard: int, writer: pq.ParquetWriter, block: Csr, users: Array, events: Array
    ) -> None:
        columns = (users[events], block.indices[events], block.data[events])
        arrays = [pa.array(c, t) for c, t in zip(columns, _SCHEMA.types, strict=True)]
        writer.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))
        self._sizes[shard] += len(np.unique(users[events])), len(events)

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
            ShardEntry(name, int(n_users), int(n_pairs), self._fingerprint(name))
            for name, (n_users, n_pairs) in zip(self._names, self._sizes, strict=True)
        )
        self.shards = Shards(self._url, (self._n_users, self._n_items), entries)
        manifest = json.dumps(self.shards.manifest(), indent=1)
        write_whole(f"{self._url}/{MANIFEST}", manifest.encode())
        self._remove(self._left_over())

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _fingerprint(self, name: str) -> str:
        with self._fs.open(self._path(name), "rb") as file:
            return sha256_of(file.read())

    def _left_over(self) -> list[str]:
        """Return the files of earlier shards in the same place."""
        found = (path.rpartition("/")[2] for path in self._fs.glob(self._path("shard-*.parquet")))
        return [name for name in found if name not in self._names]

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._fs.rm(self._path(name))
