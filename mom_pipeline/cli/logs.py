"""`mom-pipeline logs`: what the warehouse holds, by day."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from mom_pipeline.cli.terminal import day_option, json_option, print_json, print_table
from mom_pipeline.logs import ledger
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse

_COLUMNS = ["day", "files", "rows", "rejected", "set aside", "users", "items"]


@click.command()
@day_option
@click.option(
    "--lines", default=20, show_default=True, type=click.IntRange(min=0),
    help="Quarantined lines shown with --day.",
)  # fmt: skip
@json_option
def logs(day: datetime | None, lines: int, as_json: bool) -> None:
    """Show the ledger: days, rows, rejects, users and items.

    With --day, the lines of that day that were not taken, and why. "rejected" are malformed
    lines; "set aside" are those that the source itself excluded (logs.columns.exclude).
    """
    with Warehouse(load_settings()).reading() as connection:
        days = [d for d in ledger.days(connection) if day is None or d.day == day.date()]
        users, items = ledger.total_users_and_items(connection)
        reasons = ledger.reject_reasons(connection, day.date() if day else None)
        quarantined = ledger.quarantined_lines(connection, day.date(), lines) if day else []
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
    _print(days, reasons, quarantined, None if day else (users, items))


def _print(
    days: list[ledger.DaySummary],
    reasons: dict[str, int],
    quarantined: list[ledger.QuarantinedLine],
    distinct: tuple[int, int] | None,
) -> None:
    rows: list[tuple[Any, ...]] = [
        (str(d.day), d.files, d.rows_accepted, d.rows_rejected - d.rows_set_aside,
         d.rows_set_aside, d.users, d.items)
        for d in days
    ]  # fmt: skip
    if distinct and rows:
        sums = (sum(row[position] for row in rows) for position in range(1, 5))
        rows.append(("all", *sums, *distinct))
    print_table("Log days", _COLUMNS, rows)
    if reasons:
        print_table("Rows not taken, by reason", ["reason", "rows"], reasons.items())
    if quarantined:
        print_table(
            "Quarantine",
            ["file", "line", "reason", "text"],
            [(q.source_file, q.line, q.reason, q.text) for q in quarantined],
        )
