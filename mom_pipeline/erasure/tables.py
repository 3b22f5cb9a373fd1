"""The warehouse without one user: rows, dictionary, and the bytes of the file itself."""

import json
from collections import Counter

from mom_pipeline.core.files import replacing
from mom_pipeline.erasure.spellings import mention_in_sql
from mom_pipeline.warehouse.connection import Connection, Warehouse, scalar, transaction
from mom_pipeline.warehouse.dictionaries import ERASED, KINDS


def rows_of(connection: Connection, user_id: str) -> dict[str, int]:
    """Rows of a user by table."""
    return {
        table: scalar(
            connection,
            f"SELECT count(*) FROM {table} WHERE user_id = $user",  # noqa: S608 - our own names
            {"user": user_id},
        )
        for table in ("raw_logs", "user_dictionary", "recommendations")
    }


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


def erase_rows(connection: Connection, user_id: str) -> Counter[str]:
    """Remove a user from every table, in one transaction. Returns the rows by table.

    The position stays, with an empty id: positions are never given twice. The ledger counts
    what is left, also of files that no longer exist.
    """
    user = {"user": user_id}
    with transaction(connection):
        removed = Counter(
            {
                "quarantine": _delete(
                    connection,
                    "quarantine",
                    "regexp_matches(text, $mention)",
                    {"mention": mention_in_sql(user_id)},
                ),
                "raw_logs": _delete(connection, "raw_logs", "user_id = $user", user),
            }
        )
        removed["recommendations"] = scalar(
            connection, "DELETE FROM recommendations WHERE user_id = $user", user
        )
        removed["user_dictionary"] = scalar(
            connection,
            "UPDATE user_dictionary SET user_id = $erased WHERE user_id = $user",
            {**user, "erased": ERASED},
        )
    return removed


def compact(warehouse: Warehouse) -> None:
    """Write the warehouse anew: in a DuckDB file, deleted rows stay readable in free blocks.

    The old file is held until the new one has taken its place, so that nobody can write to it
    in between; one who waits for it opens the new file.
    """
    with warehouse.connect() as connection:
        connection.execute("CHECKPOINT")
        with replacing(warehouse.path) as temporary:
            connection.execute(f"ATTACH '{_quoted(str(temporary))}' AS compacted")
            [[name]] = connection.execute("SELECT current_database()").fetchall()
            connection.execute(f'COPY FROM DATABASE "{name}" TO compacted')
            connection.execute("DETACH compacted")
        warehouse.path.with_name(warehouse.path.name + ".wal").unlink(missing_ok=True)


def _delete(connection: Connection, table: str, condition: str, values: dict[str, str]) -> int:
    """Delete from the rows of files, and count anew what the ledger says about these."""
    found = connection.execute(
        f"SELECT source_file, count(*) FROM {table} WHERE {condition} GROUP BY ALL",  # noqa: S608
        values,
    ).fetchall()
    connection.execute(f"DELETE FROM {table} WHERE {condition}", values)  # noqa: S608
    column = {"raw_logs": "rows_accepted", "quarantine": "rows_rejected"}[table]
    for source, n in found:
        connection.execute(
            f"UPDATE ingest_ledger SET lines = lines - $n, {column} = {column} - $n, "  # noqa: S608
            "reject_reasons = $reasons WHERE source_file = $source",
            {"n": n, "source": source, "reasons": _reasons(connection, source)},
        )
    return sum(n for _, n in found)


def _reasons(connection: Connection, source: str) -> str:
    rows = connection.execute(
        "SELECT reason, count(*) FROM quarantine WHERE source_file = $source "
        "GROUP BY reason ORDER BY count(*) DESC, reason",
        {"source": source},
    ).fetchall()
    return json.dumps(dict(rows), ensure_ascii=False)


def _quoted(text: str) -> str:
    """Text inside of single quotes: ATTACH takes no parameter."""
    return text.replace("'", "''")
