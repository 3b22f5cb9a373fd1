"""Erasure of one user from the warehouse, the arrays of days, and the pages made of them."""

import json
import shutil
from collections import Counter

from mom_pipeline.core.files import replacing
from mom_pipeline.erasure.search import mention_in_sql
from mom_pipeline.logs.ledger import reasons_text, reject_reasons
from mom_pipeline.pipeline.days import LOGS, Days
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar
from mom_pipeline.warehouse.dictionaries import ERASED, KINDS
from mom_pipeline.warehouse.matrix import logs_fingerprints


def rows_of(connection: Connection, user_id: str) -> dict[str, int]:
    """Rows of a user by table."""
    count = "SELECT count(*) FROM {} WHERE user_id = $user"
    tables = ("raw_logs", "user_dictionary", "recommendations")
    return {table: scalar(connection, count.format(table), {"user": user_id}) for table in tables}


def is_part_of_others(connection: Connection, user_id: str) -> bool:
    """Whether the bytes of an id are also those of other ids: then finding them says nothing."""
    return any(
        scalar(
            connection,
            f"SELECT count(*) FROM {kind}_dictionary "  # noqa: S608 - one of two names
            f"WHERE contains({kind}_id, $user) AND {kind}_id <> $user",
            {"user": user_id},
        )
        for kind in KINDS
    )


def erase_rows(warehouse: Warehouse, user_id: str) -> Counter[str]:
    """Remove a user from every table. Returns the rows by table.

    The position stays, with an empty id: positions are never given twice. The ledger counts
    what is left, also of files that no longer exist.
    """
    user, erased = {"user": user_id}, {"erased": ERASED}
    mention = {"mention": mention_in_sql(user_id)}
    why = "the reason named a user who was erased"
    changes = [
        ("recommendations", "DELETE FROM recommendations WHERE user_id = $user", user),
        (
            "refused_files",
            f"UPDATE refused_files SET reason = 'refused; {why}' "  # noqa: S608
            "WHERE regexp_matches(reason, $mention)",
            mention,
        ),
        (
            "runs",
            f"UPDATE runs SET failure = 'failed; {why}' WHERE regexp_matches(failure, $mention)",  # noqa: S608
            mention,
        ),
        (  # what only this user took
            "item_dictionary",
            "UPDATE item_dictionary SET item_id = $erased "
            "WHERE item_id <> $erased AND item_id NOT IN (SELECT item_id FROM raw_logs)",
            erased,
        ),
        (
            "user_dictionary",
            "UPDATE user_dictionary SET user_id = $erased WHERE user_id = $user",
            user | erased,
        ),
    ]
    with warehouse.connect() as connection:
        counts = Counter(
            quarantine=_delete(connection, "quarantine", "regexp_matches(text, $mention)", mention),
            raw_logs=_delete(connection, "raw_logs", "user_id = $user", user),
        )
        for table, change, values in changes:
            counts[table] = scalar(connection, change, values)
    return counts


def erase_from_days(days: Days) -> Counter[str]:
    """Remove every array; the user's rows must have left the warehouse before.

    The days that keep arrays are computed again from the rows that are left. The others count as
    made from the logs as they are now: their figures are means and counts over everybody.
    """
    older = [day for day in days.computed() if not days.is_kept(day)]
    with days.warehouse.connect() as connection:
        for day, fingerprint in logs_fingerprints(connection, older).items():
            inputs = {**days.made["interaction_matrix", day].inputs, LOGS: fingerprint}
            connection.execute(
                "UPDATE materializations SET inputs = $inputs "
                "WHERE asset = 'interaction_matrix' AND day = $day::DATE",
                {"inputs": json.dumps(inputs), "day": day.isoformat()},
            )
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


def _delete(connection: Connection, table: str, condition: str, values: dict[str, str]) -> int:
    """Delete from the rows of files, and correct what the ledger says about these."""
    by_source = connection.execute(
        f"SELECT source_file, count(*) FROM {table} WHERE {condition} GROUP BY ALL",  # noqa: S608
        values,
    ).fetchall()
    connection.execute(f"DELETE FROM {table} WHERE {condition}", values)  # noqa: S608
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
    """Remove the export, reports, which show samples of users, and comparisons of days, with a
    value for each user. All can be made again; a comparison on a ready split has no users of this
    folder.
    """
    counts: Counter[str] = Counter()
    for path in settings.exports_dir.rglob("*.parquet"):
        path.unlink()
        counts["exports"] += 1
    for page in settings.reports_dir.glob("*.html"):
        page.unlink()
        counts["reports"] += 1
    for summary in settings.comparisons_dir.glob("*/comparison.json"):
        try:
            of_days = bool(json.loads(summary.read_text(encoding="utf-8"))["comparison"]["day"])
        except (ValueError, KeyError, TypeError):
            of_days = True
        if of_days:
            shutil.rmtree(summary.parent)
            counts["comparisons"] += 1
    return counts
