"""Where rows lie: sheets, databases, archives, folders and addresses, as plain files to read.

`plain_files` gives CSV, JSON lines and Parquet files as they are, and writes other rows to one.
"""

import bz2
import csv
import gzip
import lzma
import re
import shutil
import sqlite3
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from glob import escape, glob
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.datasets.importing import open_text
from mom_pipeline.errors import DatasetError
from mom_pipeline.warehouse.connection import literal_path

# First bytes of files that hold no rows, and what they are.
_FOREIGN = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x7fELF": "a program",
    b"RDX": "a file of R",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"ARROW1": "an Arrow file",
    b"<?xml": "an XML document",
    b"<!do": "a web page",
    b"<!DO": "a web page",
    b"<htm": "a web page",
}
_UNPACKED: dict[bytes, Callable[[Path], Any]] = {
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x1f\x8b": gzip.open,
}
# Bytes that a source may unpack to: more than any log that one machine takes in.
_MOST_BYTES = 2**36
_WRONG_DATABASE = "{}: {}; let the program that holds it finish, or correct --query"
_MISSING = "{} is needed to read {}: pip install 'mom-pipeline[{}]'"


@dataclass(frozen=True)
class SourcePart:
    """Which part of a container is meant: a table or a query of a database, a sheet of a book."""

    table: str = ""
    query: str = ""
    sheet: str = ""

    def select(self, source: str, tables: Sequence[str]) -> str:
        """Return the SELECT that is meant; several tables are listed for a person to choose."""
        if self.query:
            return self.query
        name = self.table or (tables[0] if len(tables) == 1 else "")
        if name not in tables:
            meant = f"no table {name!r}" if name else f"{len(tables)} tables"
            shown = ", ".join(tables[:20]) or "none"
            raise DatasetError(f"{source} has {meant}; give --table or --query. Tables: {shown}")
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
        return f"SELECT * FROM {quoted}"  # noqa: S608 - the name of a table that is there


def plain_files(source: str, part: SourcePart, folder: Path) -> list[Path]:
    """Return the plain files of a source, those that have to be made in a folder.

    source: a file, a folder, a pattern such as `logs/*.csv`, `-` for standard input, or an address.
    """
    made = folder / f"{len(list(folder.iterdir()))}" / "rows"
    made.parent.mkdir()
    if source == "-":
        return _copied(sys.stdin.buffer, made, part)
    if is_postgres(source):
        return [_from_postgres(source, part, made)]
    if "://" in source:
        return _from_address(source, part, made)
    path = Path(source)
    if path.is_dir() or (not path.exists() and re.search(r"[*?\[]", source)):
        pattern = f"{escape(source)}/**" if path.is_dir() else source
        paths = sorted(map(Path, glob(pattern, recursive=True)))
        paths = [p for p in paths if p.is_file() and p.name[0] not in "._"]
        if not paths:
            raise DatasetError(f"{source} holds no file; give a file with a line per event")
        return [plain for one in paths for plain in plain_files(str(one), part, folder)]
    if not path.is_file():
        raise DatasetError(f"{source} is not a file; see how its name is written")
    return _of_file(path, part, made.with_name(path.name))


def _of_file(path: Path, part: SourcePart, made: Path) -> list[Path]:
    """Return the plain files that a file is, or holds, by its first bytes."""
    with path.open("rb") as stream:
        begin = stream.read(4_096)
    if begin.startswith(b"SQLite format 3\0"):
        return [_from_sqlite(path, part, made)]
    if begin[8:12] == b"DUCK":
        return [_from_duckdb(path, part, made)]
    if begin.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")):
        return _from_zip(path, part, made) if _is_archive(path) else [_from_sheet(path, part, made)]
    for mark, opened in _UNPACKED.items():
        if begin.startswith(mark):
            with opened(path) as stream:
                return _copied(stream, made, part, path.stem)
    foreign = next((kind for mark, kind in _FOREIGN.items() if begin.startswith(mark)), "")
    text = begin.removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    if not foreign and text == begin and begin[:4] != b"PAR1" and b"\0" in begin[::2]:
        foreign = "of an unknown kind"
    if foreign:
        raise DatasetError(
            f"{path} is {foreign}; give rows as CSV, TSV, JSON lines, Parquet, Excel, SQLite or "
            "DuckDB, or an archive of such files"
        )
    return [_from_text(path, made)]


def _from_text(path: Path, made: Path) -> Path:
    """Return a text file, or a file of pairs made of lines `user item item ...` or a JSON array."""
    try:
        with open_text(path) as stream:
            begin = stream.read(65_536)
    except (OSError, EOFError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    lines = begin.split(b"\n")[:-1][:50]
    if begin.lstrip()[:1] == b"[":
        return _converted(path, made, "SELECT * FROM read_json($path, format = 'array')")
    widths = {len(line.split(b" ")) for line in lines}
    if len(widths) > 1 and all(re.fullmatch(rb"\d+( \d+)*\s*", line) for line in lines):
        return _converted(
            path,
            made,
            "SELECT f[1] AS user, unnest(f[2:]) AS item FROM (SELECT string_split(trim(line), ' ') "
            "AS f FROM read_csv($path, columns = {'line': 'VARCHAR'}, header = false, "
            "delim = E'\\x1f', quote = '', escape = '', auto_detect = false))",
        )
    return path


def _converted(path: Path, made: Path, query: str) -> Path:
    """Write what a query finds in a file as Parquet."""
    try:
        with duckdb.connect() as connection:
            found = connection.sql(query, params={"path": literal_path(path)})
            found.write_parquet(str(made))
    except duckdb.Error as error:
        raise DatasetError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    return made


def _copied(stream: Any, made: Path, part: SourcePart, name: str = "rows") -> list[Path]:
    """Copy a stream to a file, and look at that."""
    made.mkdir()
    copy, n_bytes = made / name, 0
    try:
        with copy.open("wb") as out:
            while chunk := stream.read(1 << 20):
                n_bytes += out.write(chunk)
                _require_bounded(n_bytes, name)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DatasetError(f"the rows cannot be read: {error}") from error
    return _of_file(copy, part, made / "of-copy")


def _require_bounded(n_bytes: int, name: object) -> None:
    if n_bytes > _MOST_BYTES:
        raise DatasetError(
            f"{name} unpacks to more than {_MOST_BYTES:,} bytes; give its rows in parts"
        )


def _from_address(address: str, part: SourcePart, made: Path) -> list[Path]:
    """Copy the files of an address that fsspec reads."""
    fsspec = library("fsspec", address, "s3")
    try:
        files = sorted(fsspec.open_files(address, "rb"), key=lambda file: file.path)
        if not files:
            raise FileNotFoundError("no such file")
        made.mkdir()
        plain = []
        for number, file in enumerate(files):
            with file as stream:
                plain += _copied(stream, made / str(number), part)
    except DatasetError:
        raise
    except Exception as error:  # whatever the library of the address raises
        raise DatasetError(f"{without_password(address)} cannot be read: {error}") from error
    return plain


def library(name: str, source: object, extra: str) -> Any:
    """Return a module that is not always installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise DatasetError(_MISSING.format(name, source, extra)) from error


def _is_archive(path: Path) -> bool:
    """Tell an archive of files from a book of sheets, which is one, too."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return "[Content_Types].xml" not in names and "content.xml" not in names


def _from_zip(path: Path, part: SourcePart, made: Path) -> list[Path]:
    made.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            members = [one for one in members if Path(one.filename).name[0] not in "._"]
            _require_bounded(sum(one.file_size for one in members), path)
            for number, member in enumerate(members):
                target = made / f"{number:04d}-{Path(member.filename).name}"
                with archive.open(member) as stream, target.open("wb") as out:
                    shutil.copyfileobj(stream, out)
                if _is_archive(target):
                    raise DatasetError(f"{path} holds an archive, {member.filename}; unpack it")
    except (zipfile.BadZipFile, RuntimeError, OSError) as error:
        raise DatasetError(f"{path} cannot be unpacked: {error}") from error
    return plain_files(str(made), part, made)


def _from_sheet(path: Path, part: SourcePart, made: Path) -> Path:
    """Write the rows of a sheet of an Excel or OpenDocument file as CSV."""
    calamine = library("python_calamine", path, "excel")
    try:
        book = calamine.CalamineWorkbook.from_path(path)
        names = list(book.sheet_names)
        if part.sheet and part.sheet not in names:
            raise DatasetError(f"{path} has no sheet {part.sheet!r}; give --sheet, one of {names}")
        sheets = [part.sheet] if part.sheet else names
        found = {name: book.get_sheet_by_name(name) for name in sheets}
        full = [name for name, sheet in found.items() if sheet.height > 1 and sheet.width > 1]
        if len(full) != 1:
            raise DatasetError(
                f"{path} has {len(full)} sheets with rows; give --sheet, one of {names}"
            )
        return _written(found[full[0]].iter_rows(), made)
    except DatasetError:
        raise
    except Exception as error:  # whatever a damaged book makes of its reader
        raise DatasetError(f"{path} cannot be read as a sheet: {error}") from error


def _written(rows: Iterable[Sequence[object]], made: Path) -> Path:
    """Write rows as CSV."""
    with made.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([_cell(value) for value in row] for row in rows)
    return made


def _cell(value: object) -> str:
    """Return the text of a cell: a whole number without a fraction, a time in ISO 8601."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    return "" if value is None else str(value)


def _from_sqlite(path: Path, part: SourcePart, made: Path) -> Path:
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", 1, uri=True)
        ) as database:
            rows = database.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            found = database.execute(part.select(str(path), [name for (name,) in rows]))
            header = [column[0] for column in found.description or ()]
            return _written(chain([header], found), made)
    except sqlite3.Error as error:
        raise DatasetError(_WRONG_DATABASE.format(path, error)) from error


def _from_duckdb(path: Path, part: SourcePart, made: Path) -> Path:
    try:
        with duckdb.connect(str(path), read_only=True) as database:
            tables = database.execute(
                "SELECT CASE table_schema WHEN 'main' THEN '' ELSE table_schema || '.' END || "
                "table_name FROM information_schema.tables ORDER BY ALL"
            ).fetchall()
            found = database.sql(part.select(str(path), [name for (name,) in tables]))
            found.write_parquet(str(made))
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        raise DatasetError(_WRONG_DATABASE.format(path, said)) from error
    return made


def _from_postgres(address: str, part: SourcePart, made: Path) -> Path:
    psycopg = library("psycopg", "a PostgreSQL database", "postgres")
    shown = without_password(address)
    try:
        with psycopg.connect(address, connect_timeout=10) as database:
            database.execute("SET TRANSACTION READ ONLY")
            database.execute("SET datestyle = 'ISO'")
            rows = database.execute(
                "SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END || "
                "table_name FROM information_schema.tables "
                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
            ).fetchall()
            query = part.select(shown, [name for (name,) in rows]).rstrip("; \n")
            with (
                made.open("wb") as out,
                database.cursor().copy(
                    f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER, ENCODING 'UTF8')"
                ) as copied,
            ):
                for block in copied:
                    out.write(block)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise DatasetError(f"{shown}: {said}; correct the address or --query") from error
    return made


def is_postgres(address: str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return bool(re.match(r"postgres(ql)?://", address))


def without_password(address: str) -> str:
    """Return an address as it may be shown."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", address)
