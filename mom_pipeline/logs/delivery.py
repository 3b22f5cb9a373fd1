"""Many log files at once: what is new or changed is ingested, a bad file stops no other."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial

from mom_pipeline.core.errors import MomError
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.ingest import IngestOutcome, ingest_file
from mom_pipeline.logs.ledger import LedgerEntry, ledger_entries
from mom_pipeline.logs.logfiles import LogFile, discover
from mom_pipeline.logs.scan import no_progress, scan_bytes
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Warehouse

# Many small files share a connection, but let other processes in so often.
_SECONDS_PER_TURN = 1.0

FileProgress = Callable[[LogFile, int], None]


@dataclass(frozen=True)
class IngestFailure:
    """A file that was refused, and why; the warehouse holds what it held before."""

    file: LogFile
    error: MomError


def files_of_day(settings: Settings, day: date) -> list[LogFile]:
    """The log files that delivered a day, in order."""
    return [file for file in discover(settings.logs_dir).files if file.day == day]


def ingest_day(warehouse: Warehouse, day: date) -> list[IngestOutcome]:
    """Ingest the files of one delivery day; the first file that is refused raises."""
    return [ingest_file(warehouse, file) for file in files_of_day(warehouse.settings, day)]


def pending_files(warehouse: Warehouse) -> list[LogFile]:
    """The log files that are new or differ from what the ledger holds: `ingest` takes these."""
    ledger = ledger_by_file(warehouse)
    return [
        file
        for file in discover(warehouse.settings.logs_dir).files
        if file.source_file not in ledger
        or not is_unchanged(file, ledger[file.source_file], warehouse.settings)
    ]


def ingest_files(
    warehouse: Warehouse,
    files: Iterable[LogFile],
    progress: FileProgress = lambda file, n_bytes: None,
) -> Iterator[IngestOutcome | IngestFailure]:
    """Ingest files one by one; `progress` receives the bytes read of each.

    A file whose sha256 is in the ledger is skipped without opening the warehouse again.
    """
    ledger = ledger_by_file(warehouse)
    with warehouse.sharing(_SECONDS_PER_TURN) as connect:
        for file in files:
            entry = ledger.get(file.source_file)
            try:
                if entry is not None and is_unchanged(file, entry, warehouse.settings):
                    progress(file, entry.size_bytes)
                    yield _unchanged(file, entry)
                else:
                    yield ingest_file(warehouse, file, partial(progress, file), connect)
            except LogFileError as error:
                yield IngestFailure(file, error)


def ledger_by_file(warehouse: Warehouse) -> dict[str, LedgerEntry]:
    """Every ledger entry by the name of its file; none before the first ingest."""
    if not warehouse.exists():
        return {}
    with warehouse.reading() as connection:
        return {entry.source_file: entry for entry in ledger_entries(connection)}


def is_unchanged(file: LogFile, entry: LedgerEntry, settings: Settings) -> bool:
    """Whether a file has the bytes of its ledger entry, and would be read by the same rules."""
    if entry.settings != settings.logs.reading_rules():
        return False
    try:
        if file.path.stat().st_size != entry.size_bytes:
            return False
        return scan_bytes(file.path, no_progress) == (entry.size_bytes, entry.sha256)
    except OSError as error:
        raise LogFileError(f"{file.path} could not be read: {error}; try again") from error


def _unchanged(file: LogFile, entry: LedgerEntry) -> IngestOutcome:
    return IngestOutcome(
        file,
        "unchanged",
        entry.lines,
        entry.rows_accepted,
        entry.rows_rejected,
        entry.rows_set_aside,
        entry.reject_reasons,
    )
