"""Somebody else's table as the source: the rows of a day become the log file of that day.

A day whose rows have changed is read again, and the new file corrects what was counted of it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.files import replacing
from mom_pipeline.datasets.containers import (
    SourcePart,
    is_postgres,
    library,
    plain_files,
    without_password,
)
from mom_pipeline.datasets.importing import is_parquet
from mom_pipeline.errors import DatasetError
from mom_pipeline.logs.readers import require_exact
from mom_pipeline.settings import (
    SETTINGS_FILE,
    ColumnSettings,
    Settings,
    fingerprint,
    load_settings,
)
from mom_pipeline.settings_file import write_values
from mom_pipeline.warehouse.connection import Connection, literal_path

_DAY, _DAYS = "{day}", r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
# The version: a sum of hashes over the rows, the same in whatever order they are.
_POSTGRES_DAY = "FROM {table} WHERE {time} >= %(first)s AND {time} < %(end)s"
_POSTGRES_VERSIONS = f"""
SELECT CAST({{time}} AS date)::text,
    concat_ws('-', count(*), sum(hashtextextended(ROW({{columns}})::text, 0)::numeric))
{_POSTGRES_DAY} GROUP BY 1"""
_POSTGRES_ROWS = f"""
COPY (SELECT {{columns}} {_POSTGRES_DAY}) TO STDOUT (FORMAT csv, HEADER, ENCODING 'UTF8')"""
_DUCKDB_DAY = """
FROM {table} WHERE {time}::TIMESTAMPTZ >= $first::TIMESTAMPTZ
    AND {time}::TIMESTAMPTZ < $end::TIMESTAMPTZ"""
_DUCKDB_VERSIONS = f"""
SELECT {{time}}::TIMESTAMPTZ::DATE::VARCHAR,
    concat_ws('-', count(*), sum(md5_number_lower(ROW({{columns}})::VARCHAR)))
{_DUCKDB_DAY} GROUP BY 1"""
_CSV = """read_csv($paths, all_varchar = true, header = true, delim = $delimiter, quote = '"',
    escape = '"', allow_quoted_nulls = false)"""
_PARQUET = "read_parquet($paths, hive_partitioning = false)"
# Types of PostgreSQL that DuckDB calls otherwise.
_TYPES = {
    **dict.fromkeys(("int2", "int4", "int8"), "BIGINT"),
    **dict.fromkeys(("float4", "float8"), "DOUBLE"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), "VARCHAR"),
    "numeric": "DECIMAL",
}


@dataclass(frozen=True)
class Source:
    """Where somebody else's rows are."""

    address: str  # postgresql://…, a DuckDB file, or Parquet or CSV files with {day} in their name
    table: str = ""  # of a database, or a view, also as schema.table
    columns: ColumnSettings = field(default_factory=ColumnSettings)  # what they are called there
    asset: tuple[str, ...] = ()  # key of the asset that makes them
    start_date: str = ""  # the first day that is read

    def __post_init__(self) -> None:
        if (_DAY in self.address) is bool(self.table):
            what = f"a table of a database, or files with {_DAY} in their name"
            raise DatasetError(f"the source must be {what}, found {self._where}")

    @property
    def name(self) -> str:
        """What the ledger calls it."""
        return self.table or without_password(self.address)

    @property
    def key(self) -> tuple[str, ...]:
        """The asset that the log comes from; () for files that no asset makes."""
        return self.asset or tuple(part for part in self.table.split(".") if part)

    @property
    def _where(self) -> str:
        return f"{without_password(self.address)} {self.table}".strip()

    def declared(self, settings: Settings) -> Settings:
        """Have the folder read what the source has beside user, item and time."""
        known = {role: name for role, name in asdict(settings.logs.columns).items() if name}
        columns = {role: role for role, name in asdict(self.columns).items() if name} | known
        if columns == known:
            return settings
        write_values(settings.data_dir / SETTINGS_FILE, {"logs.columns": columns})
        return load_settings(settings.data_dir)

    def versions(self, settings: Settings, first: date, last: date) -> dict[date, str]:
        """The days that have rows, each with the version of these."""
        bounds = _bounds(first, last)
        if _DAY in self.address:
            found = self._versions_of_files()
        elif is_postgres(self.address):
            with self._postgres(settings) as (database, parts):
                found = database.execute(_POSTGRES_VERSIONS.format(**parts), bounds).fetchall()
        else:
            with self._duckdb(settings) as connection:
                parts = self._parts(settings, _types(connection, self._table))
                found = connection.execute(_DUCKDB_VERSIONS.format(**parts), bounds).fetchall()
        days = {date.fromisoformat(day): version for day, version in found}
        return {day: version for day, version in sorted(days.items()) if first <= day <= last}

    def read(self, settings: Settings, day: date, known: str) -> str:
        """Bring the log file of a day up to date; return the version of its rows, "" for none.

        known: the version that was read last. Where all rows of a day are gone, its file is left
        without rows, which takes back what was counted.
        """
        path = settings.logs_dir / f"{day}.parquet"
        version = self.versions(settings, day, day).get(day, "")
        if version == known if path.exists() else not version:
            return version
        with scratch_folder(settings, "source") as folder, self._duckdb(settings) as connection:
            query, values = _without_rows(settings), dict[str, Any]()
            if version:
                query, values = self._rows(settings, connection, day, folder)
            with replacing(path) as temporary:
                found = connection.sql(f"{query} ORDER BY ALL", params=values)
                found.write_parquet(str(temporary), compression="zstd")
        return version

    def _rows(
        self, settings: Settings, connection: Connection, day: date, folder: Path
    ) -> tuple[str, dict[str, Any]]:
        """A query of DuckDB for the rows of a day under our names; files are made in a folder."""
        if self.table and not is_postgres(self.address):
            parts = self._parts(settings, _types(connection, self._table))
            return f"SELECT {{renamed}} {_DUCKDB_DAY}".format(**parts), _bounds(day, day)
        delimiter = "," if self.table else settings.logs.delimiter
        if self.table:
            files = [self._copied(settings, day, folder / "rows.csv")]
        else:
            files = plain_files(self.address.replace(_DAY, str(day)), SourcePart(), folder)
        values: dict[str, Any] = {"paths": [literal_path(path) for path in files]}
        table = _PARQUET
        if not all(is_parquet(path) for path in files):
            table, values["delimiter"] = _CSV, delimiter
        parts = self._parts(settings, _types(connection, table, values))
        return f"SELECT {parts['renamed']} FROM {table}", values  # noqa: S608 - quoted names

    def _parts(self, settings: Settings, types: Mapping[str, str]) -> dict[str, str]:
        """What a query over a day is made of. types: of the columns that are there."""
        columns = {role: name for role, name in asdict(self.columns).items() if name}
        if missing := [name for name in columns.values() if name not in types]:
            there = ", ".join(types)
            raise DatasetError(f"{self._where} has no column {missing[0]!r}, but {there}")
        require_exact(self._where, self.columns, types)
        ours = asdict(settings.logs.columns)
        renamed = (f"{_quoted(n)}::VARCHAR AS {_quoted(ours[r])}" for r, n in columns.items())
        return {
            "table": self._table,
            "time": _quoted(self.columns.timestamp),
            "columns": ", ".join(map(_quoted, columns.values())),
            "renamed": ", ".join(renamed),
        }

    @property
    def _table(self) -> str:
        return ".".join(map(_quoted, self.table.split(".")))

    @contextmanager
    def _postgres(self, settings: Settings) -> Iterator[tuple[Any, dict[str, str]]]:
        """A transaction that only reads, and the parts of a query."""
        psycopg = library("psycopg", "a PostgreSQL database", "postgres")
        try:
            with psycopg.connect(self.address, connect_timeout=10) as database:
                database.execute("SET TRANSACTION READ ONLY")
                for name, value in (("TimeZone", settings.logs.timezone), ("DateStyle", "ISO")):
                    database.execute("SELECT set_config(%s, %s, true)", [name, value])
                described = database.execute(f"SELECT * FROM {self._table} LIMIT 0").description  # noqa: S608
                known = ((c.name, database.adapters.types.get(c.type_code)) for c in described)
                # Psycopg does not know domains and enums by name.
                names = {column: kind.name if kind else "text" for column, kind in known}
                types = {column: _TYPES.get(n, n.upper()) for column, n in names.items()}
                parts = self._parts(settings, types).items()
                yield database, {name: text.replace("%", "%%") for name, text in parts}
        except psycopg.DataError as error:  # which may quote what is in a row
            raise self._without_times() from error
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            raise DatasetError(f"{self._where} cannot be read: {said}") from error

    def _copied(self, settings: Settings, day: date, path: Path) -> Path:
        with self._postgres(settings) as (database, parts), path.open("wb") as out:
            rows = database.cursor().copy(_POSTGRES_ROWS.format(**parts), _bounds(day, day))
            with rows as blocks:
                out.writelines(blocks)
        return path

    @contextmanager
    def _duckdb(self, settings: Settings) -> Iterator[Connection]:
        """A connection that knows the time zone, and has their file attached to be read."""
        try:
            with duckdb.connect() as connection:
                connection.execute("SET TimeZone = $zone", {"zone": settings.logs.timezone})
                if self.table and not is_postgres(self.address):
                    address = self.address.replace("'", "''")
                    connection.execute(f"ATTACH '{address}' AS theirs (READ_ONLY)")
                    connection.execute("USE theirs")
                yield connection
        except duckdb.ConversionException as error:  # which may quote what is in a row
            raise self._without_times() from error
        except duckdb.Error as error:
            said = str(error).splitlines()[0]
            raise DatasetError(f"{self._where} cannot be read: {said}") from error

    def _without_times(self) -> DatasetError:
        column = self.columns.timestamp
        return DatasetError(f"{self._where}: {column!r} has values that are no times; name another")

    def _versions_of_files(self) -> list[tuple[str, str]]:
        """Each day with a hash of what is known of its files without reading them."""
        pattern, marks = self.address, defaultdict[str, list[str]](list)
        if "://" in self.address:
            fsspec = library("fsspec", pattern, "s3")
            try:
                system, pattern = fsspec.core.url_to_fs(self.address)
                system.invalidate_cache()
                found = {
                    path: system.ukey(path) for path in system.glob(pattern.replace(_DAY, "*"))
                }
            except Exception as error:  # whatever the library of the address raises
                raise DatasetError(f"{self._where} cannot be listed: {error}") from error
        else:
            stats = {path: Path(path).stat() for path in glob(pattern.replace(_DAY, "*"))}
            found = {path: f"{s.st_size} {s.st_mtime_ns}" for path, s in stats.items()}
        for path, mark in sorted(found.items()):
            for day in set(re.findall(_DAYS, path)):
                if fnmatchcase(path, pattern.replace(_DAY, day)):
                    marks[day].append(f"{path} {mark}")
        return [(day, fingerprint(tuple(of_day))) for day, of_day in marks.items()]


def _without_rows(settings: Settings) -> str:
    names = (_quoted(name) for name in asdict(settings.logs.columns).values() if name)
    return f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in names)} WHERE false"


def _bounds(first: date, last: date) -> dict[str, str]:
    return {"first": str(first), "end": str(last + timedelta(days=1))}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _types(
    connection: Connection, table: str, values: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The columns of a table with their types."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {table}", values).fetchall()  # noqa: S608
    return {str(name): str(kind) for name, kind, *_ in rows}
