"""Erasure of users from the warehouse, the arrays of days, and the pages made of them."""

import json
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import date

from mom_pipeline.core.files import replacing
from mom_pipeline.erasure.search import MENTIONED, wanted_users
from mom_pipeline.logs.ledger import reasons_text, reject_reasons
from mom_pipeline.pipeline.days import INPUTS, LOGS, OF_FILES, Days
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar
from mom_pipeline.warehouse.lists import checksum_path
from mom_pipeline.warehouse.materializations import record
from mom_pipeline.warehouse.matrix import KINDS, extend_dictionaries, logs_fingerprints

_WHY = "the reason named a user who was erased"


def rows_of(connection: Connection) -> tuple[dict[str, int], set[str]]:
    """Rows of the wanted users by table, and those who have some."""
    rows, users = dict[str, int](), set[str]()
    for table in ("raw_logs", "user_dictionary", "recommendations"):
        found = connection.execute(
            f"SELECT user_id, count(*) FROM {table} WHERE user_id IN (FROM wanted) GROUP BY ALL"  # noqa: S608
        ).fetchall()
        rows[table] = sum(n for _, n in found)
        users |= {user for user, _ in found}
    return rows, users


def parts_of_others(connection: Connection) -> set[str]:
    """The wanted ids whose bytes are also those of other ids: finding them says nothing."""
    users = set[str]()
    for kind in KINDS:
        found = connection.execute(
            f"SELECT DISTINCT w.user_id FROM wanted AS w JOIN {kind}_dictionary AS other "  # noqa: S608
            f"ON contains(other.{kind}_id, w.user_id) AND other.{kind}_id <> w.user_id"
        ).fetchall()
        users |= {user for (user,) in found}
    return users


def erase_rows(warehouse: Warehouse, user_ids: Collection[str]) -> Counter[str]:
    """Remove users from every table. Returns the rows by table.

    Positions are given anew, as in a folder that never had them.
    """
    counts = Counter[str]()
    with warehouse.connect() as connection, wanted_users(connection, user_ids):
        counts["quarantine"] = _delete(connection, "quarantine", MENTIONED.format("text"))
        counts["raw_logs"] = _delete(connection, "raw_logs", "user_id IN (FROM wanted)")
        counts["recommendations"] = scalar(
            connection, "DELETE FROM recommendations WHERE user_id IN (FROM wanted)"
        )
        for table, column in (("refused_files", "reason"), ("runs", "failure")):
            mentioned = MENTIONED.format(column)
            query = f"UPDATE {table} SET {column} = $why WHERE {mentioned}"  # noqa: S608
            counts[table] = scalar(connection, query, {"why": _WHY})
        counts += _number_anew(connection)
    return counts


def _number_anew(connection: Connection) -> Counter[str]:
    """Give all positions again; returns how many ids went."""
    went, newest = Counter[str](), None
    for kind in KINDS:
        [[last, size]] = connection.execute(
            f"SELECT max(first_day), count(*) FROM {kind}_dictionary"  # noqa: S608
        ).fetchall()
        newest = max(filter(None, (newest, last)), default=None)
        went[f"{kind}_dictionary"] = size
        connection.execute(f"DELETE FROM {kind}_dictionary")  # noqa: S608
    if newest is not None:
        extend_dictionaries(connection, newest)
    for table in went:
        went[table] -= scalar(connection, f"SELECT count(*) FROM {table}")  # noqa: S608
    return went


def erase_from_days(days: Days, first: date) -> Counter[str]:
    """Remove every array; days before `first`, whose means stay, count as made of these logs."""
    older = [day for day in days.computed() if day < first]
    with days.warehouse.connect() as connection:
        for day, fingerprint in logs_fingerprints(connection, older).items():
            for asset in INPUTS:
                if (made := days.made.get((asset, day))) is None:
                    continue
                logs = {LOGS: fingerprint} if LOGS in made.inputs else {}
                facts = {name: fact for name, fact in made.facts.items() if name not in OF_FILES}
                left = replace(made, inputs={**made.inputs, **logs}, facts=facts)
                if left != made:
                    record(connection, left)
    return Counter({"files of arrays": days.store.remove_others([])})


def compact(warehouse: Warehouse) -> Counter[str]:
    """Rewrite the warehouse: in a DuckDB file, deleted rows stay readable in free blocks.

    The old file is held until the new one has taken its place, so that no process can write to
    it in between; one that waits for it opens the new file.
    """
    with warehouse.opened() as connection:
        connection.execute("CHECKPOINT")
        with replacing(warehouse.path) as temporary:
            quoted = str(temporary).replace("'", "''")  # ATTACH takes no parameter
            connection.execute(f"ATTACH '{quoted}' AS compacted")
            [[name]] = connection.execute("SELECT current_database()").fetchall()
            connection.execute(f'COPY FROM DATABASE "{name}" TO compacted')
            connection.execute("DETACH compacted")
        warehouse.path.with_name(warehouse.path.name + ".wal").unlink(missing_ok=True)
    return Counter({"warehouse files written anew": 1})


def _delete(connection: Connection, table: str, condition: str) -> int:
    """Delete from the rows of files, and correct what the ledger says about these."""
    by_source = connection.execute(
        f"SELECT source_file, count(*) FROM {table} WHERE {condition} GROUP BY ALL"  # noqa: S608
    ).fetchall()
    connection.execute(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608
    column = {"raw_logs": "rows_accepted", "quarantine": "rows_rejected"}[table]
    for source, n in by_source:
        reasons = reject_reasons(connection, source_file=source)
        connection.execute(
            f"UPDATE ingest_ledger SET lines = lines - $n, {column} = {column} - $n, "  # noqa: S608
            "reject_reasons = $reasons WHERE source_file = $source",
            {"n": n, "source": source, "reasons": reasons_text(reasons)},
        )
    return sum(n for _, n in by_source)


def remove_pages(settings: Settings) -> Counter[str]:
    """Remove export, reports and comparisons of days, which show users; all can be made again."""
    exports, reports = settings.exports_dir.rglob("*.parquet"), settings.reports_dir.glob("*.html")
    pages = {"exports": list(exports), "reports": list(reports)}
    for path in (*pages["exports"], *pages["reports"]):
        path.unlink()
    for path in pages["exports"]:
        checksum_path(path).unlink(missing_ok=True)
    counts = Counter({kind: len(paths) for kind, paths in pages.items()})
    for summary in settings.comparisons_dir.glob("*/comparison.json"):
        try:
            of_days = bool(json.loads(summary.read_text(encoding="utf-8"))["comparison"]["day"])
        except (ValueError, KeyError, TypeError):
            of_days = True
        if of_days and not summary.parent.is_symlink():
            shutil.rmtree(summary.parent)
            counts["comparisons"] += 1
    return counts
