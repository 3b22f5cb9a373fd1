"""The DuckDB file: short connections, a bounded wait, one transaction each to write."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import duckdb

from mom_pipeline.core.files import is_left_over, replacing
from mom_pipeline.errors import (
    DataFolderClosed,
    WarehouseBusy,
    WarehouseUnreadable,
)
from mom_pipeline.settings import Settings

_RETRY_SECONDS = 0.1
# Of the tables; a warehouse of an earlier version is brought up to date when it is opened.
SCHEMA_VERSION = 5
# Of the version before, besides rows, files, decisions and positions.
_MADE_ANEW = (
    "recommendations",
    "finished_days",
    "dictionary_sources",
    "day_figures",
    "held_days",
)
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

    # The files that this process keeps open: DuckDB has one way to open a file for all of it.
    _kept: ClassVar[dict[Path, Connection]] = {}

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
    def kept_open(self) -> Iterator[None]:
        """Within the block the file stays open, for pieces of work that follow each other.

        Opening it costs more than a small piece of work. Other processes wait for the block.
        """
        if self.path in self._kept:
            yield
            return
        with closing(self._write_access()) as file:
            self._kept[self.path] = file
            try:
                yield
            finally:
                del self._kept[self.path]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only connection. Raises WarehouseUnreadable when there is none yet."""
        if not self.exists():
            raise WarehouseUnreadable(
                f"{self.path} does not exist yet; run `mom-pipeline update` first"
            )
        if self.path in self._kept:
            with self.opened() as connection:
                yield connection
            return
        with closing(_open(self.path, self.settings, read_only=True)) as connection:
            current = _version_of(connection) == SCHEMA_VERSION
            if current:
                self._set_zone(connection)
                yield connection
        if not current:
            with self.opened() as connection:
                yield connection

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """Yield a connection for writing without a transaction.

        For what DuckDB does only outside of one, such as a rowid that counts the rows.
        """
        kept = self._kept.get(self.path)
        with closing(kept.cursor() if kept else self._write_access()) as connection:
            self._set_zone(connection)
            yield connection

    def _write_access(self) -> Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.exists():
            self._create()
        connection = _open(self.path, self.settings, read_only=False)
        try:
            _bring_up_to_date(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Make a new file with its tables under another name: one killed halfway is none."""
        for path in self.path.parent.glob(f".{self.path.name}.*.tmp*"):
            if is_left_over(path.with_name(path.name.removesuffix(".wal"))):
                path.unlink(missing_ok=True)
        with (
            replacing(self.path) as temporary,
            closing(_open(temporary, self.settings, read_only=False)) as connection,
        ):
            _bring_up_to_date(connection, self.path)

    def _set_zone(self, connection: Connection) -> None:
        connection.execute("SET TimeZone = $zone", {"zone": self.settings.logs.timezone})


def _version_of(connection: Connection) -> int:
    """The version that a warehouse says it is of; 0 for a new file, 1 for one that does not say."""
    try:
        return scalar(connection, "SELECT max(version) FROM schema_version")
    except duckdb.CatalogException:
        return min(len(connection.execute("SHOW TABLES").fetchall()), 1)


def _bring_up_to_date(connection: Connection, path: Path) -> None:
    """Make the tables of a new file; carry over those of the version before.

    Rows, files, decisions and positions stay; lists and what was made of days are made anew.
    """
    version = _version_of(connection)
    if version == SCHEMA_VERSION:
        return
    if version not in (0, SCHEMA_VERSION - 1):
        raise WarehouseUnreadable(
            f"{path} is of schema version {version}, this code knows {SCHEMA_VERSION}; update "
            "mom-pipeline, or remove the file and ingest again"
        )
    with transaction(connection):
        if version:
            for table in _MADE_ANEW:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(load_sql("warehouse/schema.sql"))
        connection.execute("DELETE FROM schema_version")
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
    if settings.warehouse.memory_limit:
        options["memory_limit"] = settings.warehouse.memory_limit
    return options
