"""The DuckDB file: short connections, a bounded wait, one transaction at a time."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path

import duckdb

from mom_pipeline.errors import WarehouseBusy, WarehouseMissing, WarehouseUnreadable
from mom_pipeline.settings import Settings

_RETRY_SECONDS = 0.1
_LOCK_HOLDER = re.compile(r"Conflicting lock is held in (.*?\(PID \d+\))")

Connection = duckdb.DuckDBPyConnection
Connect = Callable[[], AbstractContextManager[Connection]]


def load_sql(name: str) -> str:
    """The text of a `.sql` file of the package, such as `logs/read_lines.sql`."""
    return files("mom_pipeline").joinpath(name).read_text(encoding="utf-8")


def literal_path(path: Path) -> str:
    """A path for DuckDB's readers, which would take `a[1].csv` for a pattern that means a1.csv."""
    return re.sub(r"([\[*?])", r"[\1]", str(path))


class Warehouse:
    """`data/warehouse.duckdb`. A DuckDB file admits one process at a time, so every connection
    is opened for one piece of work and closed again.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = settings.warehouse_path

    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in the declared time zone; the file and its tables are made on first use.

        Raises WarehouseBusy, naming the process that holds the file, after
        `warehouse.lock_wait_seconds`.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = _open(self.path, self.settings)
        try:
            connection.execute("SET TimeZone = $zone", {"zone": self.settings.logs.timezone})
            connection.execute(load_sql("warehouse/schema.sql"))
            yield connection
        finally:
            connection.close()

    @contextmanager
    def sharing(self, seconds: float) -> Iterator[Connect]:
        """A `connect` for many small pieces of work: a connection serves them for so many
        seconds, then it is closed, so that other processes get their turn.
        """
        open_ones = ExitStack()
        current: tuple[Connection, float] | None = None

        @contextmanager
        def connect() -> Iterator[Connection]:
            nonlocal current
            if current is None:
                current = open_ones.enter_context(self.connect()), time.monotonic()
            connection, since = current
            failed = True
            try:
                yield connection
                failed = False
            finally:
                # After a failed COMMIT a connection is of no more use.
                if failed or time.monotonic() - since >= seconds:
                    current = None
                    open_ones.close()

        with open_ones:
            yield connect

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Like `connect`, for a warehouse that must be there already (WarehouseMissing)."""
        if not self.exists():
            raise WarehouseMissing(
                f"{self.path} does not exist yet; run `mom-pipeline ingest` first"
            )
        with self.connect() as connection:
            yield connection


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


def _open(path: Path, settings: Settings) -> Connection:
    wait_seconds = settings.warehouse.lock_wait_seconds
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path), config=_options(settings))
        except duckdb.Error as error:
            holder = _LOCK_HOLDER.search(str(error))
            if holder is None:
                raise WarehouseUnreadable(
                    f"{path} cannot be opened: {error}. Restore it, or remove it and ingest again: "
                    "the log files hold everything"
                ) from error
            if time.monotonic() >= deadline:
                raise WarehouseBusy(
                    f"{path} is held by {holder.group(1)}; waited {wait_seconds:g} s. "
                    "Let it finish, or raise warehouse.lock_wait_seconds"
                ) from error
        time.sleep(_RETRY_SECONDS)


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
