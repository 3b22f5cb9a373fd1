"""What `mom-pipeline status --verify` looks at: every checksum below the data folder."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date

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
from mom_pipeline.warehouse.erased import ErasuresNotWhole, read_receipt, salt_of
from mom_pipeline.warehouse.lists import is_readable

_RESTORE = "restore it from a copy, or remove it: `mom-pipeline update` reads the log files again"
_HISTORY = "move dagster_home away: the next run makes a new one; days and models are not in it"


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was written: where, what is wrong, and what to do."""

    where: str
    problem: str
    remedy: str


Looked = Callable[[], None]


def damages(settings: Settings, looked: Looked = lambda: None) -> Iterator[Damage]:
    """Yield all that is damaged; `looked` is called for every file or table."""
    places = (_in_warehouse, _in_artifacts, _in_export, _in_models, _in_erasures, _in_history)
    for place in places:
        yield from place(settings, looked)


def _in_warehouse(settings: Settings, looked: Looked) -> Iterator[Damage]:
    """Read every column of every table; count the rows of every file; hash every log file."""
    warehouse = Warehouse(settings)
    if not warehouse.exists():
        return
    where = warehouse.path.name
    try:
        with warehouse.reading() as connection:
            for (table,) in connection.execute("SHOW TABLES").fetchall():
                looked()
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" AS t').fetchall()  # noqa: S608
            yield from _miscounted(connection, where)
            yield from _in_logs(connection, settings, looked)
    except (duckdb.Error, MomError) as error:
        yield Damage(where, str(error), _RESTORE)


def _miscounted(connection: Connection, where: str) -> Iterator[Damage]:
    """The rows of a file that are not as many as its ledger entry says."""
    rows = connection.execute(
        "SELECT source_file, rows_accepted, n FROM ingest_ledger FULL JOIN "
        "(SELECT source_file, count(*) AS n FROM raw_logs GROUP BY ALL) USING (source_file) "
        "WHERE coalesce(rows_accepted, 0) <> coalesce(n, 0) ORDER BY ALL"
    ).fetchall()
    for source, accepted, counted in rows:
        problem = f"{source}: {accepted or 0} rows were taken, {counted or 0} are there"
        yield Damage(where, problem, _RESTORE)


def _in_logs(connection: Connection, settings: Settings, looked: Looked) -> Iterator[Damage]:
    """Files whose bytes changed although neither size nor time say so are not seen otherwise."""
    for entry in ledger_entries(connection):
        path = settings.logs_dir / entry.source_file
        if not path.is_file() or path.stat().st_size != entry.size_bytes:
            continue  # removed or delivered again: `status` says so
        looked()
        if sha256_of(path) != entry.sha256:
            problem = "its bytes are not those that were taken"
            yield Damage(f"logs/{entry.source_file}", problem, "deliver the file again")


def _in_artifacts(settings: Settings, looked: Looked) -> Iterator[Damage]:
    """Every file that the ledger points to, of the days that keep theirs."""
    days = Days(settings)
    try:
        kept = days.kept_files()
    except (duckdb.Error, MomError):  # the ledger cannot be read: the warehouse is named already
        return
    for asset, version in sorted(kept):
        looked()
        try:
            days.store.read(asset, version)
        except DamagedArtifact as error:
            again = "`mom-pipeline update` computes its days again"
            yield Damage(f"artifacts/{asset}/{version}", str(error), again)


def _again(day: date) -> str:
    return f"mom-pipeline backfill --from {day} --to {day}"


def _in_export(settings: Settings, looked: Looked) -> Iterator[Damage]:
    path = export_path(settings)
    looked()
    if not is_readable(path):
        where = str(path.relative_to(settings.data_dir))
        yield Damage(where, "it cannot be read to its end", "`mom-pipeline update` writes it again")


def _in_models(settings: Settings, looked: Looked) -> Iterator[Damage]:
    registry = ModelRegistry(settings.models_dir)
    try:
        champion = registry.champion_version()
    except MomError as error:
        yield Damage("models/champion.json", str(error), "`mom-pipeline promote VERSION`")
        champion = None
    for entry in registry.versions():
        looked()
        if entry.damage:
            again = f"`{_again(date.fromisoformat(entry.version[:10]))}`"
            used = "`mom-pipeline rollback` puts the one before it in use"
            remedy = used if entry.version == champion else again
            yield Damage(f"models/versions/{entry.version}", entry.damage, remedy)


def _in_erasures(settings: Settings, looked: Looked) -> Iterator[Damage]:
    """The key of the erasures, and every receipt that was signed with it."""
    for path in sorted(settings.erasures_dir.glob("*.json")):
        looked()
        where = f"erasures/{path.name}"
        try:
            finished = read_receipt(path, salt_of(settings))["finished"]
        except ErasuresNotWhole as error:
            yield Damage(where, str(error), "put erasures/ back from a copy")
        else:
            if not finished:
                again = "`mom-pipeline erase` again with the same ids goes on"
                yield Damage(where, "the erasure was begun and is not finished", again)


def _in_history(settings: Settings, looked: Looked) -> Iterator[Damage]:
    for path in sorted((settings.data_dir / "dagster_home").rglob("*.db")):
        looked()
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                answer = connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.Error as error:
            answer = [(str(error),)]
        if answer != [("ok",)]:
            yield Damage(str(path.relative_to(settings.data_dir)), str(answer[0][0]), _HISTORY)
