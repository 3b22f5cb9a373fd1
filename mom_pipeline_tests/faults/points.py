"""A switch: the n-th write, rename, fsync or commit below a folder fails, or kills.

In the process of a command alone (`commands`). What Dagster writes of its runs is not counted.
"""

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NOT_OURS = ("dagster_home", ".writer", ".lock")


class Points:
    """Counts what is done to a folder; at the n-th it strikes. how: "kill", "fail" or "count"."""

    def __init__(self, folder: Path, n: int, how: str) -> None:
        self.counts: Counter[str] = Counter()
        self._folder, self._n, self._how = str(folder.resolve()), n, how
        self._fsync = os.fsync

    def install(self) -> None:
        from mom_pipeline.warehouse import connection

        sys.addaudithook(self._heard)
        os.fsync = self._synced
        connection.transaction = self._transaction

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = any(c in mode for c in "wax+") if mode else bool((flags or 0) & _WRITES)
            if writes and self._is_ours(path):
                self._at("write")
        elif event == "os.rename" and self._is_ours(arguments[1]):
            self._at("rename")

    def _is_ours(self, path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        text = os.path.abspath(os.fsdecode(path))
        return text.startswith(self._folder + os.sep) and not any(
            name in text[len(self._folder) :] for name in _NOT_OURS
        )

    def _synced(self, descriptor: int) -> None:
        self._at("fsync")
        self._fsync(descriptor)

    @contextmanager
    def _transaction(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """As `warehouse.connection.transaction`, with a point before and after the commit."""
        connection.begin()
        try:
            yield
            self._at("commit", duckdb.IOException("IO Error: No space left on device"))
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
        self._at("after commit", duckdb.IOException("IO Error: No space left on device"))

    def _at(self, kind: str, error: Exception | None = None) -> None:
        self.counts[kind] += 1
        if self.counts.total() != self._n or self._how == "count":
            return
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise error or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), kind)
