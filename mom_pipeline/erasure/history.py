"""Erasure of one user from Dagster's history: its SQLite files, and the logs of runs.

Metadata of a day show some rows and users as they were. A record with a cell that is the id is
taken out; longer texts, such as the message of an error, lose the id only where it is
distinctive: "7" as a user cannot be told from any other 7.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from mom_pipeline.core.files import write_text
from mom_pipeline.erasure.search import is_distinctive, mention, spellings
from mom_pipeline.errors import HistoryBusy

_SQLITE = b"SQLite format 3\x00"
_WAIT_SECONDS = 10.0
_REPLACEMENT = "(erased)"


def erase_from_history(home: Path, user_id: str) -> Counter[str]:
    """Scrub every file below Dagster's folder. Raises HistoryBusy when a process writes to it."""
    counts: Counter[str] = Counter()
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.name.endswith(("-wal", "-shm", "-journal")):
            continue
        if _is_sqlite(path):
            try:
                counts["records of runs"] += _scrub_database(path, user_id)
            except sqlite3.OperationalError as error:
                raise HistoryBusy(
                    f"{path} cannot be changed now ({error}); close `mom-pipeline ui`, let runs "
                    "finish, and erase again: it goes on where it stopped"
                ) from error
        elif is_distinctive(user_id):
            counts["lines of run logs"] += _scrub_text(path, user_id)
    return counts


def scrubbed(value: Any, user_id: str) -> Any:
    """Return a JSON value without the user: records about them left out, texts without the id."""
    if isinstance(value, dict):
        return {k: scrubbed(v, user_id) for k, v in value.items()}
    if isinstance(value, list):
        return [scrubbed(v, user_id) for v in value if not _is_record_of(v, user_id)]
    if isinstance(value, str) and is_distinctive(user_id):
        return mention(user_id).sub(_REPLACEMENT, value)
    return value


def _is_record_of(value: Any, user_id: str) -> bool:
    """A record of a table: `{"__class__": "TableRecord", "data": {"user": id, ...}}`."""
    record = value.get("data") if isinstance(value, dict) else None
    return isinstance(record, dict) and user_id in record.values()


def _scrub_database(path: Path, user_id: str) -> int:
    changed = 0
    with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        for table, column in list(_columns(connection)):
            changed += _scrub_column(connection, table, column, user_id)
        connection.commit()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return changed


def _columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for (table,) in tables:
        for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield table, column[1]


def _scrub_column(connection: sqlite3.Connection, table: str, column: str, user_id: str) -> int:
    """Names of tables and columns are those of the file itself."""
    wanted = spellings(user_id)
    any_of = " OR ".join(["instr(value, ?) > 0"] * len(wanted))
    rows = connection.execute(
        f'SELECT rowid, value FROM (SELECT rowid, "{column}" AS value FROM "{table}" '  # noqa: S608
        f"WHERE typeof(\"{column}\") = 'text') WHERE {any_of}",
        wanted,
    ).fetchall()
    changed = 0
    for rowid, text in rows:
        left = _scrub_field(text, user_id)
        if left != text:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?',  # noqa: S608
                (left, rowid),
            )
            changed += 1
    return changed


def _scrub_field(text: str, user_id: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, dict | list):
        left = scrubbed(value, user_id)
        return text if left == value else json.dumps(left)
    return str(scrubbed(text, user_id))


def _scrub_text(path: Path, user_id: str) -> int:
    """Leave out the lines of a log that hold the id."""
    content = path.read_bytes()
    if not any(text.encode() in content for text in spellings(user_id)):
        return 0
    try:
        lines = content.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:  # no text, so not for us to cut up
        return 0
    kept = [line for line in lines if not mention(user_id).search(line)]
    mode = path.stat().st_mode
    write_text(path, "".join(kept))
    os.chmod(path, mode)
    return len(lines) - len(kept)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE
