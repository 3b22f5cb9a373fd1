"""What a person decides of delivery days, and files that were not ingested as they are.

A refusal holds until the contents of the file, or the settings that it was read by, change.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.gate import (
    admit_unjudged,
    contents_hash,
    excluded_days,
    is_accepted,
    is_only_small,
)
from mom_pipeline.logs.ledger import DELIVERED_TABLES, contents_of_day, delivery_days
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.settings import Settings, fingerprint
from mom_pipeline.warehouse.connection import Connection, Warehouse, put_row

_DROPPED = "dropped by a person; `mom-pipeline accept {}` ingests it again"


@dataclass(frozen=True)
class Refusal:
    """One file that was not taken. contents: see `contents_of`.  dropped: by a person."""

    source_file: str
    delivery_day: date
    contents: str
    rules: str
    reason: str
    dropped: bool = False

    @classmethod
    def of_file(cls, file: LogFile, settings: Settings, reason: str) -> "Refusal":
        """Return the refusal of a file as it is now, by the settings of now."""
        rules = fingerprint(settings.logs)
        return cls(file.source_file, file.day, contents_of(file), rules, reason)

    def holds(self, file: LogFile, settings: Settings) -> bool:
        """Return whether the file is still the one that was not taken."""
        same_rules = self.dropped or self.rules == fingerprint(settings.logs)
        return same_rules and self.contents == contents_of(file)

    def save(self, connection: Connection) -> None:
        """Store the refusal in place of an earlier one of the same file."""
        now = datetime.now(tz=UTC)
        put_row(connection, "refused_files", ["source_file"], **vars(self), refused_at=now)


def contents_of(file: LogFile) -> str:
    """sha256 of a file and of its checksum file; size and time of one that cannot be read."""
    with suppress(OSError):
        own, beside = sha256_of(file.path), file.checksum_path
        return f"{own} {sha256_of(beside)}" if beside.is_file() else own
    with suppress(OSError):
        status = file.path.stat()
        return f"unreadable, {status.st_size} bytes, {status.st_mtime_ns}"
    return "not there"


def refusals(connection: Connection, day: date | None = None) -> list[Refusal]:
    """Return every refusal, or those of a delivery day, in order."""
    rows = connection.execute(
        "SELECT * EXCLUDE (refused_at) FROM refused_files "
        "WHERE $day IS NULL OR delivery_day = $day ORDER BY delivery_day, source_file",
        {"day": day},
    ).fetchall()
    return [Refusal(*row) for row in rows]


def standing_refusals(connection: Connection, settings: Settings) -> list[Refusal]:
    """Return the refusals of files that lie in the folder as they were."""
    discovery = discover(settings.logs_dir)
    files = {file.source_file: file for file in discovery.files}
    odd = {entry.name for entry in discovery.set_aside}
    return [
        one
        for one in refusals(connection)
        if one.source_file in odd
        or (one.source_file in files and one.holds(files[one.source_file], settings))
    ]


def unusual_days(connection: Connection, settings: Settings) -> dict[date, str]:
    """Return the days whose model is not put in use, and why: excluded, or a file was refused."""
    refused = (one for one in standing_refusals(connection, settings) if not one.dropped)
    return {one.delivery_day: f"a file was refused: {one.reason}" for one in refused} | {
        day: f"excluded: {reason}" for day, reason in excluded_days(connection).items()
    }


def accept_day(warehouse: Warehouse, day: date) -> str:
    """Accept a day that was excluded or dropped; say what it was. Raises LogFileError."""
    with warehouse.connect() as connection:
        excluded = excluded_days(connection).get(day)
        dropped = [one for one in refusals(connection, day) if one.dropped]
        names = ", ".join(one.source_file for one in dropped)
        if not (excluded or dropped):
            raise LogFileError(
                f"{day} is neither excluded nor dropped; `mom-pipeline status` lists the days "
                "that are"
            )
        there = {file.source_file for file in discover(warehouse.settings.logs_dir).files}
        if not (excluded or there.intersection(one.source_file for one in dropped)):
            raise LogFileError(
                f"{day} was dropped, and its files are no longer in the logs folder: {names}; put "
                "them there again first"
            )
        again = [(one.source_file, one.contents.split()[0]) for one in dropped]
        _store_acceptance(connection, day, contents_of_day(connection, day) + again)
        connection.execute("DELETE FROM excluded_days WHERE day = $day", {"day": day})
        connection.execute(
            "DELETE FROM refused_files WHERE delivery_day = $day AND dropped", {"day": day}
        )
    return excluded or f"dropped: {names}"


def undecided_days(warehouse: Warehouse, first: date, last: date) -> list[date]:
    """Return the days of a range that are excluded or dropped, in order."""
    with warehouse.reading() as connection:
        dropped = {one.delivery_day for one in refusals(connection) if one.dropped}
        return sorted(d for d in dropped | excluded_days(connection).keys() if first <= d <= last)


def accept_usual(warehouse: Warehouse) -> list[date]:
    """Accept the days of a history, all of one source, that are excluded as small; return them.

    What is missing from an export is missing at its ends: a small day within it is a Sunday or one
    before Christmas. Days that were never judged are, by their figures.
    """
    with warehouse.connect() as connection:
        admit_unjudged(connection, date.max)
        days = delivery_days(connection)
        small = [day for day in excluded_days(connection) if is_only_small(connection, day)]
    usual = [day for day in small if days[0] < day < days[-1]]
    for day in usual:
        accept_day(warehouse, day)
    return usual


@contextmanager
def keeping_decisions(warehouse: Warehouse, file: LogFile) -> Iterator[None]:
    """Carry a person's decision on a day over to new contents of a file, as erasure makes them."""
    with warehouse.reading() as connection:
        accepted = is_accepted(connection, file.day)
        known = [one for one in refusals(connection, file.day) if one.dropped]
    yield
    with warehouse.connect() as connection:
        if accepted:
            _store_acceptance(connection, file.day, contents_of_day(connection, file.day))
        for one in known:
            if one.source_file == file.source_file:
                replace(one, contents=contents_of(file)).save(connection)


def keep_admitted(warehouse: Warehouse, first: date) -> None:
    """Let the days from `first` on that were admitted stay so, as their files are now.

    Without many people who were erased a day looks as if a part of it were missing.
    """
    with warehouse.connect() as connection:
        judged = connection.execute(
            "SELECT day FROM day_figures WHERE day >= $first "
            "AND day NOT IN (SELECT day FROM excluded_days) ORDER BY day",
            {"first": first},
        ).fetchall()
        for (day,) in judged:
            _store_acceptance(connection, day, contents_of_day(connection, day))


def _store_acceptance(
    connection: Connection, day: date, contents: Sequence[tuple[str, str]]
) -> None:
    accepted = {"contents": contents_hash(contents), "accepted_at": datetime.now(tz=UTC)}
    put_row(connection, "accepted_days", ["day"], day=day, **accepted)


def drop_day(warehouse: Warehouse, day: date) -> int:
    """Remove the rows of a day for good and do not take its files again; return the rows."""
    reason, settings = _DROPPED.format(day), warehouse.settings
    files = [file for file in discover(settings.logs_dir).files if file.day == day]
    with warehouse.connect() as connection:
        ledger = connection.execute(
            "SELECT source_file, sha256, rows_accepted FROM ingest_ledger "
            "WHERE delivery_day = $day",
            {"day": day},
        ).fetchall()
        if not ledger and not files:
            raise LogFileError(
                f"{day} brought no rows and has no file; `mom-pipeline logs` lists the days that do"
            )
        dropped = [Refusal(name, day, sha256, "", reason) for name, sha256, _ in ledger]
        dropped += [Refusal.of_file(file, settings, reason) for file in files]
        for one in dropped:
            replace(one, dropped=True).save(connection)
        for table in DELIVERED_TABLES:
            connection.execute(f"DELETE FROM {table} WHERE delivery_day = $day", {"day": day})  # noqa: S608
        for table in ("excluded_days", "accepted_days", "day_figures"):
            connection.execute(f"DELETE FROM {table} WHERE day = $day", {"day": day})  # noqa: S608
    return sum(rows for _, _, rows in ledger)


def removed_files(connection: Connection, there: Collection[str]) -> dict[date, list[str]]:
    """Return the files of the ledger that are no longer in the folder, by day; their rows stay."""
    return dict(
        connection.execute(
            "SELECT delivery_day, list(source_file ORDER BY source_file) FROM ingest_ledger "
            "WHERE source_file NOT IN (SELECT unnest($there::VARCHAR[])) GROUP BY ALL ORDER BY ALL",
            {"there": list(there)},
        ).fetchall()
    )
