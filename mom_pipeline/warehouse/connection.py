"""The DuckDB file: short connections, a bounded wait, one transaction each to write."""

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from importlib.resources import files
from pathlib import Path
from threading import Lock, Timer
from types import MappingProxyType

import duckdb

from mom_pipeline.errors import (
    DataFolderClosed,
    WarehouseBusy,
    WarehouseMissing,
    WarehouseUnreadable,
)
from mom_pipeline.settings import Settings

_RETRY_SECONDS = 0.1
# How long a file that is kept open stays so: in all, and while nothing is done with it.
_SECONDS_PER_TURN, _IDLE_SECONDS = 1.0, 0.05
# Of the tables; a warehouse of an earlier version is brought up to date when it is opened.
SCHEMA_VERSION = 4
# Reading and writing at once, within one process.
_OTHER_ACCESS = "with a different configuration than existing connections"
_NOT_ALLOWED = ("Permission denied", "Read-only file system")
_LOCK_HOLDER = re.compile(r"Conflicting lock is held in (.*?\(PID \d+\))")

Connection = duckdb.DuckDBPyConnection


def load_sql(name: str) -> str:
    """The text of a `.sql` file of the package, such as `logs/read_lines.sql`."""
    return files("mom_pipeline").joinpath(name).read_text(encoding="utf-8")


def literal_path(path: Path) -> str:
    """A path for DuckDB's readers, which would take `a[1].csv` for a pattern that means a1.csv."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


class Warehouse:
    """The warehouse of a data folder, `warehouse.duckdb`.

    A DuckDB file admits one writing process or several that read, so every connection is opened
    for one piece of work and closed again; see `kept_open` for many small ones.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = settings.warehouse_path

    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Yield a connection for writing, in one transaction: all or nothing.

        The file and its tables are made on first use.

        Raises WarehouseBusy, naming the process that holds the file, after
        `warehouse.lock_wait_seconds`.
        """
        with self.opened() as connection, transaction(connection):
            yield connection

    @contextmanager
    def kept_open(self, seconds: float = _SECONDS_PER_TURN) -> Iterator[None]:
        """Within the block, pieces of work that follow each other closely find the file open.

        Opening and closing it costs more than a small piece of work. The file is closed after the
        given seconds, and whenever nothing is done with it for a moment, so that other processes
        get their turn. Every piece of work still has a connection and transactions of its own.
        """
        if self._kept() is not None:
            yield
            return
        kept = _KeptOpen(self._write_access, seconds)
        token = _kept_open.set({**_kept_open.get(), self.path: kept})
        try:
            yield
        finally:
            _kept_open.reset(token)
            kept.close()

    def _kept(self) -> "_KeptOpen | None":
        return _kept_open.get().get(self.path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only connection. Raises WarehouseMissing when there is no warehouse yet."""
        if not self.exists():
            raise WarehouseMissing(
                f"{self.path} does not exist yet; run `mom-pipeline ingest` first"
            )
        if self._kept() is not None:
            with self.opened() as connection:
                yield connection
            return
        with self._connection(read_only=True) as connection:
            current = _version_of(connection) == SCHEMA_VERSION
            if current:
                yield connection
        if not current:
            with self.opened():
                pass
            with self._connection(read_only=True) as connection:
                yield connection

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """Yield a connection for writing without a transaction.

        For what DuckDB does only outside of one, such as a rowid that counts the rows.
        """
        kept = self._kept()
        if kept is None:
            with closing(self._write_access()) as connection:
                yield connection
            return
        with kept.connection() as connection:
            self._set_zone(connection)
            yield connection

    def _write_access(self) -> Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = _open(self.path, self.settings, read_only=False)
        try:
            self._set_zone(connection)
            _bring_up_to_date(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _connection(self, *, read_only: bool) -> Iterator[Connection]:
        with closing(_open(self.path, self.settings, read_only=read_only)) as connection:
            self._set_zone(connection)
            yield connection

    def _set_zone(self, connection: Connection) -> None:
        connection.execute("SET TimeZone = $zone", {"zone": self.settings.logs.timezone})


class _KeptOpen:
    """A file that stays open between pieces of work of one thread; see `Warehouse.kept_open`."""

    def __init__(self, open_file: Callable[[], Connection], seconds: float) -> None:
        self._open_file = open_file
        self._seconds = seconds
        self._lock = Lock()  # against the timer
        self._file: Connection | None = None
        self._since = 0.0
        self._in_use = 0
        self._timer: Timer | None = None

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yield a connection of its own to the open file."""
        with self._lock:
            self._stop_timer()
            if self._file is None:
                self._file, self._since = self._open_file(), time.monotonic()
            connection = self._file.cursor()
            self._in_use += 1
        failed = True
        try:
            yield connection
            failed = False
        finally:
            connection.close()
            with self._lock:
                self._in_use -= 1
                # After a failed COMMIT a file has to be opened again.
                if failed:
                    self._since = -math.inf
                if not self._in_use:
                    self._end_of_work()

    def close(self) -> None:
        """Close the file, unless a piece of work still has it; then that closes it at its end."""
        with self._lock:
            self._stop_timer()
            self._since = -math.inf
            if not self._in_use:
                self._close_file()

    def _end_of_work(self) -> None:
        if time.monotonic() - self._since >= self._seconds:
            self._close_file()
            return
        self._timer = Timer(_IDLE_SECONDS, self.close)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


# By the path of the file.
_kept_open: ContextVar[Mapping[Path, _KeptOpen]] = ContextVar(
    "kept open", default=MappingProxyType({})
)


def _version_of(connection: Connection) -> int:
    """The version that a warehouse says it is of; 0 for a new file, 1 for one that does not say."""
    try:
        return scalar(connection, "SELECT max(version) FROM schema_version")
    except duckdb.CatalogException:
        return min(len(connection.execute("SHOW TABLES").fetchall()), 1)


def _bring_up_to_date(connection: Connection, path: Path) -> None:
    """Make the tables of a new file, or change those of an earlier version."""
    version = _version_of(connection)
    if version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise WarehouseUnreadable(
            f"{path} is of schema version {version}, this code knows {SCHEMA_VERSION}; update "
            "mom-pipeline, or remove the file and ingest again"
        )
    with transaction(connection):
        connection.execute(load_sql("warehouse/schema.sql"))
        if version:
            connection.execute(load_sql("warehouse/upgrade.sql"))
        connection.execute(
            "INSERT INTO schema_version VALUES ($version)", {"version": SCHEMA_VERSION}
        )


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All or nothing: commit at the end, roll back on any error."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def scalar(connection: Connection, sql: str, parameters: object = None) -> int:
    """The single integer that a query returns."""
    return int(connection.execute(sql, parameters).fetchall()[0][0])


def _open(path: Path, settings: Settings, *, read_only: bool) -> Connection:
    wait_seconds = settings.warehouse.lock_wait_seconds
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=_options(settings))
        except duckdb.Error as error:
            holder = _holder(str(error))
            if any(text in str(error) for text in _NOT_ALLOWED):
                raise DataFolderClosed(
                    f"{path} cannot be opened for writing: {error}. The file itself is not at "
                    "fault; give the user of this command the right to write to its folder"
                ) from error
            if not holder:
                raise WarehouseUnreadable(
                    f"{path} cannot be opened: {error}. Restore it, or remove it and ingest again: "
                    "the log files hold everything"
                ) from error
            if time.monotonic() >= deadline:
                raise WarehouseBusy(
                    f"{path} is held by {holder}; waited {wait_seconds:g} s. "
                    "Let it finish, or raise warehouse.lock_wait_seconds"
                ) from error
        time.sleep(_RETRY_SECONDS)


def _holder(message: str) -> str:
    """Who holds the file, when that is why it could not be opened."""
    if _OTHER_ACCESS in message:
        return f"this process (PID {os.getpid()}) for another kind of access"
    other = _LOCK_HOLDER.search(message)
    return other.group(1) if other else ""


def _options(settings: Settings) -> dict[str, str | bool | int | float | list[str]]:
    """Options of the whole DuckDB instance: equal for every connection of a process."""
    options: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(settings.scratch_dir.resolve()),
        "preserve_insertion_order": True,
    }
    if settings.warehouse.threads:
        options["threads"] = settings.warehouse.threads
    if settings.warehouse.memory_limit:
        options["memory_limit"] = settings.warehouse.memory_limit
    return options
