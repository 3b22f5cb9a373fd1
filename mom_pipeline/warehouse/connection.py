"""The DuckDB file: short connections, a bounded wait, one transaction each to write."""

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.core.files import is_left_over, replacing
from mom_pipeline.errors import (
    DataFolderClosed,
    WarehouseBusy,
    WarehouseUnreadable,
)
from mom_pipeline.settings import Settings

_RETRY_SECONDS = 0.1
# The number of the folder: one of an earlier format is brought up to date when it is opened.
FORMAT = 6
# The formats that this version takes over, each with the tables that are made anew.
_MADE_ANEW = {
    4: ("recommendations", "finished_days", "dictionary_sources", "day_figures", "held_days"),
    5: (),
}
# What DuckDB says of a file that is open in the same process.
_OPEN_HERE = "with a different configuration"
_NOT_ALLOWED = ("Permission denied", "Read-only file system")
_LOCK_HOLDER = re.compile(r"Conflicting lock is held in (.*?\(PID \d+\))")

Connection = duckdb.DuckDBPyConnection


@cache
def load_sql(name: str) -> str:
    """The text of a `.sql` file of the package, such as `logs/read_lines.sql`."""
    return files("mom_pipeline").joinpath(name).read_text(encoding="utf-8")


def literal_path(path: Path) -> str:
    """A path for DuckDB's readers, which would take `a[1].csv` for a pattern that means a1.csv."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


class Warehouse:
    """`warehouse.duckdb`: for one writer or several readers, opened for each piece of work."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = settings.warehouse_path

    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Yield a connection for writing, in one transaction; WarehouseBusy names who holds it."""
        with self.opened() as connection, transaction(connection):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only connection. Raises WarehouseUnreadable when there is none yet."""
        if not self.exists():
            raise WarehouseUnreadable(
                f"{self.path} does not exist yet; run `mom-pipeline update` first"
            )
        with _connected(self.path, self.settings, read_only=True) as connection:
            current = _format_of(connection) == FORMAT
            if current:
                yield connection
        if not current:
            with self.opened() as connection:
                yield connection

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """Yield a connection for writing, without a transaction; kept, one checkpoint for all."""
        if not self.exists():
            self._create()
        with _connected(self.path, self.settings, read_only=False) as connection:
            _bring_up_to_date(connection, self.settings)
            yield connection

    def _create(self) -> None:
        """Make a new file with its tables under another name: one killed halfway is none."""
        for path in self.path.parent.glob(f".{self.path.name}.*.tmp*"):
            if is_left_over(path.with_name(path.name.removesuffix(".wal"))):
                path.unlink(missing_ok=True)
        with (
            replacing(self.path) as temporary,
            _connected(temporary, self.settings, read_only=False) as connection,
        ):
            _bring_up_to_date(connection, self.settings)


def _format_of(connection: Connection) -> int:
    """The format that a warehouse says it is of; 0 for a new file, 1 for one that does not say."""
    try:
        return scalar(connection, "SELECT max(version) FROM schema_version")
    except duckdb.CatalogException:
        return min(len(connection.execute("SHOW TABLES").fetchall()), 1)


def _bring_up_to_date(connection: Connection, settings: Settings) -> None:
    """Make the tables of a new file; of an earlier format keep all but arrays."""
    found = _format_of(connection)
    if found == FORMAT:
        return
    if found and found not in _MADE_ANEW:
        remedy = (
            "install that version. Nothing was changed"
            if found > FORMAT
            else "remove warehouse.duckdb, and `mom-pipeline update` reads the log files again"
        )
        which = "a later" if found > FORMAT else "too early a"
        raise WarehouseUnreadable(
            f"{settings.data_dir} is of format {found}, made by {which} version of mom-pipeline: "
            f"this one reads {min(_MADE_ANEW)} to {FORMAT}; {remedy}"
        )
    with transaction(connection):
        for older in range(found or FORMAT, FORMAT):
            for table in _MADE_ANEW[older]:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(load_sql("warehouse/schema.sql"))
        connection.execute("DELETE FROM schema_version")
        connection.execute("INSERT INTO schema_version VALUES ($format)", {"format": FORMAT})
        if found and not scalar(connection, "SELECT count(*) FROM materializations"):
            for folder in (settings.artifacts_dir, settings.data_dir / "timings"):
                shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(settings.exports_dir / "recommendations", ignore_errors=True)


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


def records(connection: Connection, sql: str, parameters: object = None) -> list[dict[str, Any]]:
    """The rows of a query, each by the names of the columns."""
    cursor = connection.execute(sql, parameters)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def put_row(connection: Connection, table: str, keys: Collection[str], **row: object) -> None:
    """Store a row in place of those with the same keys."""
    same = " AND ".join(f"{key} = ${key}" for key in keys)
    connection.execute(f"DELETE FROM {table} WHERE {same}", {key: row[key] for key in keys})  # noqa: S608
    values = ", ".join(f"${name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})", row)  # noqa: S608


@contextmanager
def _connected(path: Path, settings: Settings, *, read_only: bool) -> Iterator[Connection]:
    """Yield a connection in the declared zone; the file is closed with the last one."""
    with closing(_opened(path, settings, read_only=read_only)) as connection:
        connection.execute("SET TimeZone = $zone", {"zone": settings.logs.timezone})
        yield connection


def _opened(path: Path, settings: Settings, *, read_only: bool) -> Connection:
    """Open a file, or wait until that is possible; connections of a process share it."""
    wait_seconds, options = settings.warehouse.lock_wait_seconds, options_of(settings)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path), read_only, options)
        except duckdb.Error as error:
            said, holder = str(error), _LOCK_HOLDER.search(str(error))
            if _OPEN_HERE in said and read_only:  # whoever reads may join who writes
                read_only = False
                continue
            if any(text in said for text in _NOT_ALLOWED):
                raise DataFolderClosed(
                    f"{path} cannot be opened for writing: {error}. The file itself is not at "
                    "fault; give the user of this command the right to write to its folder"
                ) from error
            if not (holder or _OPEN_HERE in said):
                raise WarehouseUnreadable(
                    f"{path} cannot be opened: {error}. Restore it, or remove it and ingest again: "
                    "the log files hold everything"
                ) from error
            if time.monotonic() >= deadline:
                here = f"this process (PID {os.getpid()}) for another kind of access"
                raise WarehouseBusy(
                    f"{path} is held by {holder.group(1) if holder else here}; waited "
                    f"{wait_seconds:g} s. Let it finish, or raise warehouse.lock_wait_seconds"
                ) from error
        time.sleep(_RETRY_SECONDS)


def options_of(
    settings: Settings, scratch: Path | None = None
) -> dict[str, str | bool | int | float | list[str]]:
    """Options of the whole DuckDB instance: equal for every connection of a process."""
    limit = settings.warehouse.memory_limit
    return {
        "temp_directory": str(scratch or settings.scratch_dir.resolve()),
        "preserve_insertion_order": True,
        **({"memory_limit": limit} if limit else {}),
    }
