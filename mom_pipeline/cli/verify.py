"""What `mom-pipeline status --verify` looks at: every checksum below the data folder."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import duckdb

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline.logs.ledger import ledger_entries
from mom_pipeline.pipeline.days import Days
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.erased import (
    ErasuresNotWhole,
    read_receipt,
    receipts_gone,
    receipts_in,
    salt_of,
)
from mom_pipeline.warehouse.lists import is_whole_export

_RESTORE = "restore it from a copy, or remove it: `mom-pipeline update` reads the log files again"
_HISTORY = "move dagster_home away: the next run makes a new one; days and models are not in it"
_ERASURES = "put erasures/ back from a copy"
_MISCOUNTED = """
SELECT source_file, coalesce(rows_accepted, 0), coalesce(n, 0) FROM ingest_ledger FULL JOIN
(SELECT source_file, count(*) AS n FROM raw_logs GROUP BY ALL) USING (source_file)
WHERE coalesce(rows_accepted, 0) <> coalesce(n, 0) ORDER BY ALL"""


@dataclass(frozen=True)
class Check:
    """A file or table. problem: "" where it is as it was written.  remedy: what to do about it."""

    where: str
    problem: str = ""
    remedy: str = ""


def checks(settings: Settings) -> Iterator[Check]:
    """Every file and table, and what is wrong with it."""
    places = (_in_warehouse, _in_artifacts, _in_export, _in_models, _in_erasures, _in_history)
    for place in places:
        yield from place(settings)


def _in_warehouse(settings: Settings) -> Iterator[Check]:
    """Read every column of every table; count the rows of every file; hash every log file."""
    warehouse = Warehouse(settings)
    if not warehouse.exists():
        return
    where = warehouse.path.name
    try:
        with warehouse.reading() as connection:
            for (table,) in connection.execute("SHOW TABLES").fetchall():
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" AS t').fetchall()  # noqa: S608
                yield Check(f"{where}/{table}")
            for source, taken, counted in connection.execute(_MISCOUNTED).fetchall():
                problem = f"{source}: {taken} rows were taken, {counted} are there"
                yield Check(where, problem, _RESTORE)
            gone = receipts_gone(connection, receipts_in(settings.erasures_dir))
            yield Check("erasures", gone, _ERASURES)
            yield from _in_logs(connection, settings)
    except (duckdb.Error, MomError) as error:
        yield Check(where, str(error), _RESTORE)


def _in_logs(connection: Connection, settings: Settings) -> Iterator[Check]:
    """Files whose bytes changed although neither size nor time say so are not seen otherwise."""
    for entry in ledger_entries(connection):
        path = settings.logs_dir / entry.source_file
        if path.is_file() and path.stat().st_size == entry.size_bytes:  # else `status` says so
            changed = sha256_of(path) != entry.sha256
            problem = "its bytes are not those that were ingested" if changed else ""
            yield Check(f"logs/{entry.source_file}", problem, "deliver the file again")


def _in_artifacts(settings: Settings) -> Iterator[Check]:
    """Every file that the ledger points to, of the days that keep theirs."""
    days = Days(settings)
    try:
        kept = days.kept_files()
    except (duckdb.Error, MomError):  # the ledger cannot be read: the warehouse is named already
        return
    for asset, version in sorted(kept):
        problem = ""
        try:
            days.store.read(asset, version)
        except DamagedArtifact as error:
            problem = str(error)
        remedy = "`mom-pipeline update` computes its days again"
        yield Check(f"artifacts/{asset}/{version}", problem, remedy)


def _in_export(settings: Settings) -> Iterator[Check]:
    path = export_path(settings)
    problem = "" if is_whole_export(path) else "it is not what was written"
    where = str(path.relative_to(settings.data_dir))
    yield Check(where, problem, "`mom-pipeline update` writes it again")


def _in_models(settings: Settings) -> Iterator[Check]:
    registry, champion = ModelRegistry(settings.models_dir), None
    try:
        champion = registry.champion_version()
    except MomError as error:
        yield Check("models/champion.json", str(error), "`mom-pipeline promote VERSION`")
    for entry in registry.versions():
        used, day = "`mom-pipeline rollback` puts the one before it in use", entry.version[:10]
        again = f"`mom-pipeline backfill --from {day} --to {day}`"
        remedy = used if entry.version == champion else again
        yield Check(f"models/versions/{entry.version}", entry.damage, remedy)


def _in_erasures(settings: Settings) -> Iterator[Check]:
    """The key of the erasures, and every receipt that was signed with it."""
    for path in sorted(settings.erasures_dir.glob("*.json")):
        problem, remedy = "", "`mom-pipeline erase` again with the same ids goes on"
        try:
            if not read_receipt(path, salt_of(settings.erasures_dir))["finished"]:
                problem = "the erasure was begun and is not finished"
        except ErasuresNotWhole as error:
            problem, remedy = str(error), _ERASURES
        yield Check(f"erasures/{path.name}", problem, remedy)


def _in_history(settings: Settings) -> Iterator[Check]:
    for path in sorted((settings.data_dir / "dagster_home").rglob("*.db")):
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                [(answer,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.Error as error:
            answer = str(error)
        problem = "" if answer == "ok" else answer
        yield Check(str(path.relative_to(settings.data_dir)), problem, _HISTORY)
