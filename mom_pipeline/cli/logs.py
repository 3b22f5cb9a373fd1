"""`mom-pipeline ingest` and `logs`: log files into the warehouse, and what it holds by day."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mom_pipeline.cli.terminal import (
    byte_progress,
    day_option,
    json_option,
    print_json,
    print_table,
    writes,
)
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs import ledger
from mom_pipeline.logs.ingest import IngestFailure, IngestResult, ingest_files, not_dropped
from mom_pipeline.logs.logfiles import LogFile, SetAside, discover, log_file
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.settings.writing import declare_first_day
from mom_pipeline.warehouse.connection import Warehouse

_DETAILED_FILES = 20
_COLUMNS = ["day", "files", "rows", "rejected", "set aside", "users", "items"]


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@day_option
@json_option
@writes
def ingest(files: tuple[Path, ...], day: datetime | None, as_json: bool) -> None:
    """Bring log files into data/warehouse.duckdb, each exactly once.

    Without FILES, everything new or changed in data/logs is taken. A file that is already
    there, byte for byte, is skipped; a changed file replaces exactly its own rows. Lines that
    cannot be read go to the quarantine with a reason; a file with too many of them
    (logs.max_reject_share) is refused and changes nothing. So is a text file whose last line has
    no line end, as if cut short, unless NAME.sha256 beside it confirms its bytes
    (logs.require_checksum asks for one always). What is no log file is set aside and reported.

    \b
    Examples:
      mom-pipeline ingest
      mom-pipeline ingest --day 2024-03-01
      mom-pipeline ingest data/logs/2024-03-01.csv.gz
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if files and day:
        raise click.UsageError("give FILES or --day, not both")
    chosen, set_aside = _choose(settings, files, day)
    declare_first_day(settings, [file.day for file in chosen])
    results = _run(settings, chosen)
    if as_json:
        print_json([_as_dict(result) for result in results])
    else:
        _print_results(results)
    print_set_aside(set_aside)
    if not as_json:
        click.echo("Next: mom-pipeline update")
    if any(isinstance(result, IngestFailure) for result in results):
        raise SystemExit(1)


def _choose(
    settings: Settings, paths: Sequence[Path], day: datetime | None
) -> tuple[list[LogFile], tuple[SetAside, ...]]:
    """The files to ingest, and what else lies in data/logs."""
    if paths:
        return [log_file(path, settings.logs_dir) for path in paths], ()
    discovery = discover(settings.logs_dir)
    files = [file for file in discovery.files if day is None or file.day == day.date()]
    files = not_dropped(Warehouse(settings), files)
    if not files:
        print_set_aside(discovery.set_aside)
        wanted = f"of {day.date()} " if day else ""
        raise LogFileError(
            f"no log file {wanted}in {settings.logs_dir}; put files such as 2024-03-01.csv there, "
            "or make some with `mom-pipeline simulate` or `mom-pipeline import`"
        )
    return files, discovery.set_aside


def _run(settings: Settings, files: list[LogFile]) -> list[IngestResult | IngestFailure]:
    warehouse = Warehouse(settings)
    with byte_progress() as bar:
        total = sum(file.path.stat().st_size for file in files)
        task = bar.add_task("ingest", total=total)

        def show(file: LogFile, n_bytes: int) -> None:
            bar.update(task, advance=n_bytes, description=escape(file.source_file))

        return list(ingest_files(warehouse, files, show))


def _as_dict(result: IngestResult | IngestFailure) -> dict[str, object]:
    about: dict[str, object] = {"file": result.file.source_file, "day": str(result.file.day)}
    if isinstance(result, IngestFailure):
        return about | {"status": "refused", "error": str(result.error)}
    return about | {
        "status": result.status,
        "lines": result.lines,
        "rows_accepted": result.rows_accepted,
        "rows_rejected": result.rows_rejected,
        "rows_set_aside": result.rows_set_aside,
        "reject_reasons": result.reject_reasons,
    }


def print_set_aside(set_aside: Sequence[SetAside]) -> None:
    """Print what lies in the logs folder and is no log, on standard error."""
    for one in set_aside[:_DETAILED_FILES]:
        click.secho(f"Set aside: {one.name}: {one.reason}", fg="yellow", err=True)
    if len(set_aside) > _DETAILED_FILES:
        more = len(set_aside) - _DETAILED_FILES
        click.secho(f"Set aside: {more:,} more names.", fg="yellow", err=True)


def _print_results(results: list[IngestResult | IngestFailure]) -> None:
    taken = [r for r in results if isinstance(r, IngestResult)]
    changed = [o for o in taken if o.status != "unchanged"]
    if 0 < len(changed) <= _DETAILED_FILES:
        print_table(
            "Ingested files",
            ["file", "status", "accepted", "rejected", "set aside"],
            [(o.file.source_file, o.status, *_counts(o)) for o in changed],
        )
    reasons: Counter[str] = Counter()
    for one in changed:
        reasons.update(one.reject_reasons)
    if reasons:
        print_table("Rows not taken, by reason", ["reason", "rows"], reasons.most_common(20))
    counts = Counter(r.status if isinstance(r, IngestResult) else "refused" for r in results)
    words = ", ".join(f"{counts[s]} {s}" for s in ("new", "replaced", "unchanged", "refused"))
    click.echo(
        f"{len(results)} files: {words}; {sum(o.rows_accepted for o in changed):,} rows taken."
    )
    for result in results:
        if isinstance(result, IngestFailure):
            click.secho(f"Refused: {result.error}", fg="red", err=True)


@click.command()
@day_option
@click.option(
    "--lines",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Quarantined lines shown with --day.",
)
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
        print_table("Rows not taken, by reason", ["reason", "rows"], reasons.items())
    if quarantined:
        print_table(
            "Quarantine",
            ["file", "line", "reason", "text"],
            [(q.source_file, q.line, q.reason, q.text) for q in quarantined],
        )


def _counts(rows: IngestResult | ledger.DaySummary) -> tuple[int, int, int]:
    """Rows accepted, rejected as malformed, and set aside."""
    return (
        rows.rows_accepted,
        rows.rows_rejected - rows.rows_set_aside,
        rows.rows_set_aside,
    )
