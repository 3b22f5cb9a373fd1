"""Everybody's lists or groups, of the model in use, as a file or as a table elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import replacing
from mom_pipeline.core.types import Array, Float64
from mom_pipeline.datasets.containers import is_postgres, library, without_password
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.serving.served_model import Manifest
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, literal_path

FORMATS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet", "jsonl": "FORMAT json"}
_DUCKDB = ("duckdb", "db")
# Begins with what a spreadsheet takes for a formula, and is no number.
_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+-]?[0-9]+([.,][0-9]+)?$"
_LISTS = """
CREATE TABLE exported AS
SELECT model, $day::DATE AS day, user_id, rank, item_id, item_name AS name, score, reason
FROM read_parquet($path) WHERE rank <= $n ORDER BY user_id, rank"""
_COLUMNS = {
    "groups": "user_id VARCHAR, rank INTEGER, group_number INTEGER, name VARCHAR, share DOUBLE",
    "audience": "user_id VARCHAR, name VARCHAR, share DOUBLE",
}
_FORMULAS = """
SELECT count(DISTINCT id), min(id)
FROM (SELECT unnest([*COLUMNS('.*_id')]) AS id FROM exported)
WHERE regexp_matches(id, $formula) AND NOT regexp_matches(id, $number)"""
_QUOTED = """
UPDATE exported SET name = concat('\'\'', name) WHERE regexp_matches(name, $formula)"""
_IN_POSTGRES = {
    "VARCHAR": "text",
    "DATE": "date",
    "INTEGER": "integer",
    "DOUBLE": "double precision",
}


class NotExported(MomError):
    """What was asked for cannot be written as was asked."""


@dataclass(frozen=True)
class Output:
    """Where everybody's lists or groups go."""

    what: Literal["lists", "groups", "audience"]
    to: str  # a file by its ending, a .duckdb file, or postgresql://…
    table: str = ""  # of a database, also schema.table
    n: int | None = None  # of each person; None for all
    format: str = ""  # of a file, else by its ending

    @property
    def name(self) -> str:
        return self.table or f"mom_{self.what}"

    @property
    def shown(self) -> str:
        return without_password(self.to)

    @property
    def kind(self) -> str:
        """The format of a file, "duckdb" or "postgres"."""
        if is_postgres(self.to):
            return "postgres"
        ending = self.format or Path(self.to).suffix.removeprefix(".")
        return "duckdb" if ending in _DUCKDB else ending


@dataclass(frozen=True)
class Written:
    """What was written: of which model, and how much."""

    model: str
    day: str
    rows: int
    people: int


def write_output(settings: Settings, output: Output) -> Written:
    """Replace a file as a whole, or a table in one transaction; NotExported where it cannot be."""
    groups = Recommender.open(settings.data_dir).groups if output.what == "groups" else None
    return _write(settings, output, groups.members(output.n) if groups else ())


def write_audience(
    settings: Settings, output: Output, name: str, people: Iterable[tuple[Array, Float64]]
) -> Written:
    """Write some people, each with a share, the largest first, as `write_output` does."""
    blocks = (
        {"user_id": ids, "name": np.full(len(ids), name, dtype=object), "share": shares}
        for ids, shares in people
    )
    return _write(settings, output, blocks, order="ORDER BY share DESC, user_id")


def _write(
    settings: Settings, output: Output, blocks: Iterable[dict[str, Array]], order: str = ""
) -> Written:
    """Write the lists, or blocks of people with the columns of the output."""
    manifest = ModelRegistry(settings.models_dir).champion().manifest
    check_output(output, settings)
    with duckdb.connect() as connection:
        if output.what == "lists":
            _lists(connection, settings, manifest, output.n or settings.serving.list_length)
        else:
            columns = f"model VARCHAR, day DATE, {_COLUMNS[output.what]}"
            connection.execute(f"CREATE TABLE exported ({columns})")
            for block in blocks:
                connection.register("block", block)
                insert = "INSERT INTO exported SELECT $model, $day::DATE, * FROM block"
                connection.execute(insert, {"model": manifest.version, "day": manifest.day})
                connection.unregister("block")
            if order:
                connection.execute(f"CREATE OR REPLACE TABLE exported AS FROM exported {order}")
        if output.kind == "postgres":
            _to_postgres(output, connection)
        elif output.kind == "duckdb":
            _to_duckdb(output, connection)
        else:
            _to_file(Path(output.to), output.kind, connection)
        counted = connection.execute("SELECT count(*), count(DISTINCT user_id) FROM exported")
        rows, people = counted.fetchall()[0]
    return Written(manifest.version, manifest.day, rows, people)


def check_output(output: Output, settings: Settings) -> None:
    """Refuse a place where nothing can be written, or nothing should be."""
    if output.kind != "postgres":
        check_path(Path(output.to), settings)
    if output.kind not in (*FORMATS, "duckdb", "postgres"):
        known = ", .".join(FORMATS)
        raise NotExported(
            f"{output.to} must end with .{known} or .duckdb, or --format must be given"
        )


def check_path(path: Path, settings: Settings) -> None:
    """Refuse a file inside of the data folder."""
    if path.resolve().is_relative_to(settings.data_dir.resolve()):
        where = f"{path} lies in the data folder, where `erase` must reach every person"
        raise NotExported(f"{where}; write it elsewhere")


def _lists(connection: Connection, settings: Settings, manifest: Manifest, n: int) -> None:
    """Take the lists from the export that follows the model in use."""
    path, length = export_path(settings), settings.serving.list_length
    if n > length:
        raise NotExported(
            f"the lists hold {length} items, --n asks for {n}; set serving.list_length = {n} in "
            "pipeline.toml and run `mom-pipeline update`"
        )
    if not path.exists():
        raise NotExported(f"{path} is not there; `mom-pipeline update` writes it")
    connection.execute(_LISTS, {"path": literal_path(path), "n": n, "day": manifest.day})
    models = connection.execute("SELECT DISTINCT model FROM exported").fetchall()
    if models not in ([], [(manifest.version,)]):
        raise NotExported(
            f"{path} holds the lists of {models[0][0]}, in use is {manifest.version}; "
            "`mom-pipeline update` writes them anew"
        )


def _to_file(path: Path, kind: str, connection: Connection) -> None:
    if kind == "csv":
        formula = {"formula": _FORMULA}
        found, example = connection.execute(_FORMULAS, formula | {"number": _NUMBER}).fetchall()[0]
        if found:
            said = f"{found:,} ids such as {example!r} would be formulas to a spreadsheet"
            raise NotExported(f"{said}, and no id is changed; write --format parquet or jsonl")
        connection.execute(_QUOTED, formula)
    with replacing(path) as temporary:
        connection.execute(f"COPY exported TO $path ({FORMATS[kind]})", {"path": str(temporary)})


def _to_duckdb(output: Output, connection: Connection) -> None:
    quoted = output.to.replace("'", "''")
    try:
        connection.execute(f"ATTACH '{quoted}' AS target")
        connection.execute(f"CREATE OR REPLACE TABLE target.{_quoted(output)} AS FROM exported")
        connection.execute("DETACH target")
    except duckdb.Error as error:
        said = str(error).partition("\n")[0]
        raise NotExported(f"{output.shown} was left as it was: {said}") from error


def _to_postgres(output: Output, connection: Connection) -> None:
    """Replace the rows; the table stays with its rights, indexes and the views upon it."""
    psycopg = library("psycopg", "a PostgreSQL database", "postgres")
    table, described = _quoted(output), connection.execute("DESCRIBE exported").fetchall()
    columns = ", ".join(f'"{name}" {_IN_POSTGRES[kind]}' for name, kind, *_ in described)
    names = ", ".join(f'"{name}"' for name, *_ in described)
    try:
        with psycopg.connect(output.to, connect_timeout=10) as database:
            cursor = database.cursor()
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
            cursor.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                found = connection.execute("FROM exported")
                while rows := found.fetchmany(10_000):
                    for row in rows:
                        copy.write_row(row)
    except psycopg.Error as error:
        said = str(error).strip().partition("\n")[0]
        raise NotExported(f"{output.shown} was left as it was: {said}") from error


def _quoted(output: Output) -> str:
    parts = (part.replace('"', '""') for part in output.name.split("."))
    return ".".join(f'"{part}"' for part in parts)
