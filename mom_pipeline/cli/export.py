"""`mom-pipeline export`: everybody's lists, or groups, as a file or as a table elsewhere."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click
import duckdb

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import replacing
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Connection, literal_path

_FORMATS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet", "jsonl": "FORMAT json"}
_DUCKDB = ("duckdb", "db")
_POSTGRES = ("postgres://", "postgresql://")
# Begins with what a spreadsheet takes for a formula, and is no number.
_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+-]?[0-9]+([.,][0-9]+)?$"
_LISTS = """
CREATE TABLE exported AS
SELECT model, user_id, rank, item_id, item_name AS name, score, reason
FROM read_parquet($path) WHERE rank <= $n ORDER BY user_id, rank"""
_GROUPS = """
CREATE TABLE exported (
    model VARCHAR, user_id VARCHAR, rank INTEGER, group_number INTEGER, name VARCHAR, share DOUBLE
)"""
_BLOCK = "INSERT INTO exported SELECT $model, user_id, rank, number, name, share FROM block"
_FORMULAS = """
SELECT count(DISTINCT id), min(id)
FROM (SELECT unnest([*COLUMNS('.*_id')]) AS id FROM exported)
WHERE regexp_matches(id, $formula) AND NOT regexp_matches(id, $number)"""
_QUOTED = """
UPDATE exported SET name = concat('\'\'', name) WHERE regexp_matches(name, $formula)"""


class NotExported(MomError):
    """The lists or groups cannot be written as was asked."""


@click.command()
@click.argument("what", type=click.Choice(["lists", "groups"]))
@click.option("--format", "kind", type=click.Choice(list(_FORMATS)), help="[default: csv]")
@click.option(
    "--to", metavar="PATH|URL", help="A file, a .duckdb file, or postgresql://… [default: WHAT.csv]"
)
@click.option("-n", "--n", "n", type=click.IntRange(1), help="Of each person. [default: all]")
def export(what: str, kind: str | None, to: str | None, n: int | None) -> None:
    """Write everybody's lists, or the groups that everybody belongs to, of the model in use.

    A file is replaced as a whole; in a DuckDB file or a PostgreSQL database it is the table
    `mom_lists` or `mom_groups`, replaced in one transaction. Ids are never changed. Write it
    outside of the data folder: `erase` does not follow it.

    \b
    Examples:
      mom-pipeline export lists --to lists.parquet
      mom-pipeline export groups --to postgresql://localhost/shop
    """  # noqa: D301 - \b tells click to keep the lines
    settings, to, table = load_settings(), to or f"{what}.{kind or 'csv'}", f"mom_{what}"
    version = ModelRegistry(settings.models_dir).champion().manifest.version
    is_database, path = to.startswith(_POSTGRES), Path(to)
    kind = None if is_database else kind or path.suffix.removeprefix(".")
    if not is_database:
        _check_file(path, kind, settings)
    with duckdb.connect() as connection:
        if what == "lists":
            _lists(connection, settings, version, n or settings.serving.list_length)
        else:
            _groups(connection, settings, version, n)
        if is_database:
            _to_postgres(to, connection, table)
        elif kind in _FORMATS:
            _to_file(path, kind, connection)
        else:
            _to_duckdb(to, connection, table)
        counted = connection.execute("SELECT count(*), count(DISTINCT user_id) FROM exported")
        rows, users = counted.fetchall()[0]
    click.echo(f"{rows:,} rows of {users:,} people, model {version}, in {_shown(to)}.")


def _check_file(path: Path, kind: str | None, settings: Settings) -> None:
    if path.resolve().is_relative_to(settings.data_dir.resolve()):
        where = f"{path} lies in the data folder, where `erase` must reach every person"
        raise NotExported(f"{where}; write it elsewhere")
    if kind not in {*_FORMATS, *_DUCKDB}:
        known = ", .".join(_FORMATS)
        raise NotExported(f"{path} must end with .{known} or .duckdb, or --format must be given")


def _lists(connection: Connection, settings: Settings, version: str, n: int) -> None:
    """Take the lists from the export that follows the model in use."""
    path, length = export_path(settings), settings.serving.list_length
    if n > length:
        raise NotExported(
            f"the lists hold {length} items, --n asks for {n}; set serving.list_length = {n} in "
            "pipeline.toml and run `mom-pipeline update`"
        )
    if not path.exists():
        raise NotExported(f"{path} is not there; `mom-pipeline update` writes it")
    connection.execute(_LISTS, {"path": literal_path(path), "n": n})
    models = connection.execute("SELECT DISTINCT model FROM exported").fetchall()
    if models not in ([], [(version,)]):
        raise NotExported(
            f"{path} holds the lists of {models[0][0]}, in use is {version}; `mom-pipeline update` "
            "writes them anew"
        )


def _groups(connection: Connection, settings: Settings, version: str, n: int | None) -> None:
    """Compute the groups of everybody with a history, the largest share first."""
    connection.execute(_GROUPS)
    for block in Recommender.open(settings.data_dir).explorer.members(n):
        connection.register("block", block)
        connection.execute(_BLOCK, {"model": version})
        connection.unregister("block")


def _to_file(path: Path, kind: str, connection: Connection) -> None:
    if kind == "csv":
        formula = {"formula": _FORMULA}
        found, example = connection.execute(_FORMULAS, formula | {"number": _NUMBER}).fetchall()[0]
        if found:
            said = f"{found:,} ids such as {example!r} would be formulas to a spreadsheet"
            raise NotExported(f"{said}, and no id is changed; write --format parquet or jsonl")
        connection.execute(_QUOTED, formula)
    with replacing(path) as temporary:
        connection.execute(f"COPY exported TO $path ({_FORMATS[kind]})", {"path": str(temporary)})


def _to_duckdb(to: str, connection: Connection, table: str) -> None:
    quoted = to.replace("'", "''")
    connection.execute(f"ATTACH '{quoted}' AS target")
    connection.execute(f"CREATE OR REPLACE TABLE target.{table} AS FROM exported")
    connection.execute("DETACH target")


def _to_postgres(to: str, connection: Connection, table: str) -> None:
    try:
        psycopg: Any = import_module("psycopg")
    except ImportError as error:
        how = "pip install 'mom-pipeline[postgres]'"
        raise NotExported(f"PostgreSQL needs psycopg: {how}") from error
    kinds = {"VARCHAR": "text", "INTEGER": "integer", "DOUBLE": "double precision"}
    described = connection.execute("DESCRIBE exported").fetchall()
    columns = ", ".join(f'"{name}" {kinds[kind]}' for name, kind, *_ in described)
    try:
        with psycopg.connect(to) as database, database.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                found = connection.execute("FROM exported")
                while rows := found.fetchmany(10_000):
                    for row in rows:
                        copy.write_row(row)
    except psycopg.Error as error:
        said = str(error).strip().partition("\n")[0]
        raise NotExported(f"{_shown(to)} was left as it was: {said}") from error


def _shown(to: str) -> str:
    """A destination without its password."""
    scheme, found, rest = to.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else to
