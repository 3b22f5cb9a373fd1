"""Files that were not taken as they are: refused by the ingest, or dropped by a person.

A refusal holds until the contents of the file, or the settings that it was read by, change. So
one bad file costs its own day, once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from mom_pipeline.core.files import sha256_of
from mom_pipeline.logs.known_hashes import HashOf
from mom_pipeline.logs.logfiles import LogFile
from mom_pipeline.settings import Settings, fingerprint
from mom_pipeline.warehouse.connection import Connection, Warehouse

_COLUMNS = "source_file, delivery_day, contents, rules, reason, dropped"


@dataclass(frozen=True)
class Refusal:
    """One file that was not taken. contents: see `contents_of`.  dropped: by a person."""

    source_file: str
    day: date
    contents: str
    rules: str
    reason: str
    dropped: bool = False

    @classmethod
    def of_file(cls, file: LogFile, settings: Settings, reason: str) -> "Refusal":
        """Return the refusal of a file as it is now, by the settings of now."""
        return cls(file.source_file, file.day, contents_of(file), _rules(settings), reason)

    def holds(self, file: LogFile, settings: Settings, hash_of: HashOf = sha256_of) -> bool:
        """Return whether the file is still the one that was not taken."""
        same_rules = self.dropped or self.rules == _rules(settings)
        return same_rules and self.contents == contents_of(file, hash_of)


def contents_of(file: LogFile, hash_of: HashOf = sha256_of) -> str:
    """Return the sha256 of a file and of its checksum file, if there is one.

    Size and time stand for a file that cannot be read.
    """
    try:
        own = hash_of(file.path)
        beside = file.checksum_path
        return f"{own} {hash_of(beside)}" if beside.is_file() else own
    except OSError:
        pass
    try:
        status = file.path.stat()
    except OSError:
        return "not there"
    return f"unreadable, {status.st_size} bytes, {status.st_mtime_ns}"


def refusals(connection: Connection, day: date | None = None) -> list[Refusal]:
    """Return every refusal, or those of a delivery day, in order."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM refused_files WHERE $day IS NULL OR delivery_day = $day::DATE "  # noqa: S608
        "ORDER BY delivery_day, source_file",
        {"day": day.isoformat() if day else None},
    ).fetchall()
    return [Refusal(*row) for row in rows]


def refusals_by_file(warehouse: Warehouse) -> dict[str, Refusal]:
    """Return every refusal by the name of its file; none before the first ingest."""
    if not warehouse.exists():
        return {}
    with warehouse.reading() as connection:
        return {refusal.source_file: refusal for refusal in refusals(connection)}


def record_refusals(connection: Connection, made: Sequence[Refusal]) -> None:
    """Store refusals in place of earlier ones of the same files."""
    now = datetime.now(tz=UTC)
    for refusal in made:
        remove_refusal(connection, refusal.source_file)
        values = {
            "source_file": refusal.source_file,
            "day": refusal.day.isoformat(),
            "contents": refusal.contents,
            "rules": refusal.rules,
            "reason": refusal.reason,
            "dropped": refusal.dropped,
            "now": now,
        }
        connection.execute(
            f"INSERT INTO refused_files ({_COLUMNS}, refused_at) VALUES "  # noqa: S608
            "($source_file, $day::DATE, $contents, $rules, $reason, $dropped, $now)",
            values,
        )


def remove_refusal(connection: Connection, source_file: str) -> None:
    """Forget that a file was not taken."""
    connection.execute(
        "DELETE FROM refused_files WHERE source_file = $source_file", {"source_file": source_file}
    )


def _rules(settings: Settings) -> str:
    return fingerprint(settings.logs)
