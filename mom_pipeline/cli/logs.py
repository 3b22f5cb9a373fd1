"""`mom-pipeline logs`: what the warehouse holds by day; and new files into it."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click
from rich.markup import escape

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.cli.terminal import (
    byte_progress,
    day_option,
    json_option,
    print_json,
    print_table,
)
from mom_pipeline.logs import ledger
from mom_pipeline.logs.ingest import IngestFailure, ingest_files, pending_files
from mom_pipeline.logs.logfiles import LogFile, SetAside
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_DETAILED_FILES = 20
_SHOWN_LINES = 200
_COLUMNS = ["day", "files", "rows", "rejected", "set aside", "users", "items"]


def ingest_new(settings: Settings) -> None:
    """Bring every new or changed log file into the warehouse, for commands that read its rows."""
    warehouse = Warehouse(settings)
    files = pending_files(warehouse)
    if not files:
        return
    with writing_to(settings, "mom-pipeline", waiting=_tell), byte_progress() as bar:
        task = bar.add_task("ingest", total=sum(file.path.stat().st_size for file in files))

        def show(file: LogFile, n_bytes: int) -> None:
            bar.update(task, advance=n_bytes, description=escape(file.source_file))

        for result in ingest_files(warehouse, files, show):
            if isinstance(result, IngestFailure):
                _tell(f"Refused: {result.error}")


def _tell(message: str) -> None:
    click.secho(message, fg="yellow", err=True)


def print_set_aside(set_aside: Sequence[SetAside]) -> None:
    """Print what lies in the logs folder and is no log, on standard error."""
    for one in set_aside[:_DETAILED_FILES]:
        click.secho(f"Set aside: {one.name}: {one.reason}", fg="yellow", err=True)
    if len(set_aside) > _DETAILED_FILES:
        more = len(set_aside) - _DETAILED_FILES
        click.secho(f"Set aside: {more:,} more names.", fg="yellow", err=True)


@click.command()
@day_option
@json_option
def logs(day: datetime | None, as_json: bool) -> None:
    """Show the ledger: days, rows, rejects, users and items.

    With --day, the first lines of that day that were not ingested, and why. "rejected" are
    malformed lines; "set aside" are those that the source itself excluded (logs.columns.exclude).
    """
    with Warehouse(load_settings()).reading() as connection:
        days = [d for d in ledger.days(connection) if day is None or d.day == day.date()]
        users, items = ledger.total_users_and_items(connection)
        reasons = ledger.reject_reasons(connection, day.date() if day else None)
        quarantined = ledger.quarantined_lines(connection, day.date(), _SHOWN_LINES) if day else []
    if as_json:
        print_json(
            {
                "days": [asdict(d) for d in days],
                "reject_reasons": reasons,
                "quarantine": [asdict(line) for line in quarantined],
            }
            | ({} if day else {"users": users, "items": items})
        )
        return
    _print_ledger(days, reasons, quarantined, None if day else (users, items))


def _print_ledger(
    days: list[ledger.DaySummary],
    reasons: dict[str, int],
    quarantined: list[ledger.QuarantinedLine],
    distinct: tuple[int, int] | None,
) -> None:
    rows: list[tuple[Any, ...]] = [
        (str(d.day), d.files, *_counts(d), d.users, d.items) for d in days
    ]
    if distinct and rows:
        sums = (sum(row[position] for row in rows) for position in range(1, 5))
        rows.append(("all", *sums, *distinct))
    print_table("Log days", _COLUMNS, rows)
    if reasons:
        print_table("Rows not ingested, by reason", ["reason", "rows"], reasons.items())
    if quarantined:
        print_table(
            "Quarantine",
            ["file", "line", "reason", "text"],
            [(q.source_file, q.line, q.reason, q.text) for q in quarantined],
        )


def _counts(rows: ledger.DaySummary) -> tuple[int, int, int]:
    """Rows accepted, rejected as malformed, and set aside."""
    return (
        rows.rows_accepted,
        rows.rows_rejected - rows.rows_set_aside,
        rows.rows_set_aside,
    )
