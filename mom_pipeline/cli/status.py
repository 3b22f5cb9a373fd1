"""`mom-pipeline status` and `logs`: how things are; `accept` and `drop`: decisions on a day."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.lock import LOCK, writer_of
from mom_pipeline.catalogue import ITEMS_FILE, Catalogue
from mom_pipeline.cli.terminal import (
    A_DAY,
    DAY,
    day_option,
    json_option,
    print_json,
    print_table,
    writes,
)
from mom_pipeline.cli.verify import checks
from mom_pipeline.logs import ledger
from mom_pipeline.logs.decisions import accept_day, drop_day, undecided_days
from mom_pipeline.logs.logfiles import FIRST_DAY, LAST_DAY, discover
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses
from mom_pipeline.serving.registry import PERSON, UNUSABLE, ModelRegistry, NoChampion
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.erased import receipts_gone, receipts_in

_SHOWN, _SHOWN_LINES = 5, 200
_NEXT = "Next: `mom-pipeline update` computes the days from there on."


@click.command()
@click.option("--days", "all_days", is_flag=True, help="Show every day, settings and sizes too.")
@click.option("--verify", is_flag=True, help="Compare every file with its checksum instead.")
@json_option
def status(all_days: bool, verify: bool, as_json: bool) -> None:
    """Show the model in use and what needs a hand; exit code 1 where the model is not whole.

    \b
    fresh     computed from the present logs, settings and code
    stale     one of these has changed since; `mom-pipeline update` computes it again
    missing   not computed yet; `mom-pipeline update` does
    excluded  it differs from the days before: `accept DAY` takes it in, `drop DAY` removes it; or
              it lies outside of the days of the pipeline
    failed    its newest run failed or was killed, or a file of it was refused
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if verify:
        _verify(settings, as_json=as_json)
        return
    damage = damage_of_champion(ModelRegistry(settings.models_dir, mapped=True))
    if damage:
        damage += ". `mom-pipeline update` mends it, or puts the last whole one in use"
    days = day_statuses(Days(settings))
    if as_json:
        print_json(
            {
                "model_in_use": damage or model_in_use(settings, days),
                "damaged": bool(damage),
                "days": [asdict(entry) for entry in days],
                "set_aside": [asdict(one) for one in discover(settings.logs_dir).set_aside],
                "settings": _values(settings),
                "bytes": _disk_sizes(settings.data_dir),
            }
        )
    else:
        if damage:
            click.secho(f"The model in use is not whole: {damage}", fg="red")
        else:
            click.echo(model_in_use(settings, days))
        if writer := writer_of(settings):
            click.secho(f"Being written to: {writer}.", fg="yellow")
        behind = any(entry.behind for entry in days)
        then = " `mom-pipeline update` computes what is missing or stale." if behind else ""
        click.echo(count_statuses(days) + then)
        print_needs(settings, days, None if all_days else _SHOWN, click.echo)
        if all_days:
            _print_all(settings, days)
        elif days:
            click.echo("All days, settings and sizes: `mom-pipeline status --days`.")
    if damage:
        raise SystemExit(1)


def model_in_use(settings: Settings, days: Sequence[DayStatus]) -> str:
    """Which model answers, and why; or why there is none."""
    registry = ModelRegistry(settings.models_dir)
    champion = registry.champion_version()
    if champion is not None:
        change = registry.history()[-1]
        by = "a person" if change.by == PERSON else "the gate"
        return f"In use: {champion}, {change.kind} by {by}: {change.reason}"
    reasons = [f"{entry.day}: {entry.reason}" for entry in days if entry.reason]
    return f"No model is in use yet. {reasons[-1] if reasons else 'Nothing was computed.'}"


def damage_of_champion(registry: ModelRegistry) -> str:
    """What is wrong with the model in use; "" where it is whole, or there is none yet."""
    try:
        registry.champion()
    except NoChampion:
        return ""
    except UNUSABLE as error:
        return str(error)
    return ""


def count_statuses(days: Sequence[DayStatus]) -> str:
    """How many days there are of each status."""
    counts = Counter(entry.status for entry in days).most_common()
    return f"Days: {', '.join(f'{n} {status}' for status, n in counts) or 'none yet'}."


def print_needs(
    settings: Settings, days: Sequence[DayStatus], most: int | None, say: Callable[[str], None]
) -> None:
    """Say what needs a hand: names set aside, items that are named twice, days; the newest last."""
    set_aside = discover(settings.logs_dir).set_aside
    needs = [f"Set aside: {one.name}: {one.reason}" for one in set_aside]
    if doubled := Catalogue.open(settings.data_dir).doubled:
        needs.append(
            f"{ITEMS_FILE} names {len(doubled):,} items more than once, such as {doubled[0]!r}; "
            "the first line of each counts."
        )
    if (warehouse := Warehouse(settings)).exists():
        with warehouse.reading() as connection:
            gone = receipts_gone(connection, receipts_in(settings.erasures_dir))
        needs += [gone] if gone else []
    needs += [f"{day.day} {day.status}: {day.reason}" for day in days if day.noteworthy]
    shown = needs if most is None else needs[-most:]
    for line in shown:
        say(line)
    if rest := len(needs) - len(shown):
        say(f"{rest:,} more: see `mom-pipeline status --days`")


def _print_all(settings: Settings, days: Sequence[DayStatus]) -> None:
    rows = [(str(d.day), d.files, d.mode, d.status, d.reason) for d in days]
    print_table("Days", ["day", "files", "mode", "status", "reason"], rows)
    sections = _values(settings).items()
    keys = [(f"{name}.{k}", str(v)) for name, values in sections for k, v in values.items()]
    print_table(f"Settings of {settings.data_dir}", ["key", "value"], keys)
    sizes = _disk_sizes(settings.data_dir).items()
    print_table("On disk", ["what", "MB"], [(n, round(b / 1e6, 2)) for n, b in sizes])


def _values(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings by section and key."""
    return settings.model_dump(mode="json", exclude={"data_dir", "fixed"})


def _verify(settings: Settings, *, as_json: bool) -> None:
    """Show what is damaged and what to run; exit code 1 if anything is."""
    checked = list(checks(settings))
    damaged = [check for check in checked if check.problem]
    if as_json:
        print_json({"checked": len(checked), "damaged": [asdict(check) for check in damaged]})
    else:
        click.echo(f"{len(checked):,} files and tables checked, {len(damaged):,} damaged.")
        for check in damaged:
            click.echo(f"{check.where}: {check.problem}\n  What to do: {check.remedy}")
    if damaged:
        raise SystemExit(1)


def _disk_sizes(folder: Path) -> dict[str, int]:
    """The bytes of every entry of a folder, largest first; what vanishes meanwhile has none."""
    sizes = Counter[str]()
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names if name != LOCK):
            with suppress(FileNotFoundError):
                sizes[path.relative_to(folder).parts[0]] += path.lstat().st_size
    return dict(sizes.most_common())


@click.command()
@day_option
@json_option
def logs(day: date | None, as_json: bool) -> None:
    """Show the ledger: days, rows, rejects, users and items.

    With --day, the first lines of that day that were not ingested, and why. "rejected" are
    malformed lines; "set aside" are those that the source itself excluded (logs.columns.exclude).
    """
    with Warehouse(load_settings()).reading() as connection:
        days = [entry for entry in ledger.days(connection) if day in (None, entry.day)]
        users, items = ledger.total_users_and_items(connection)
        reasons = ledger.reject_reasons(connection, day)
        quarantined = ledger.quarantined_lines(connection, day, _SHOWN_LINES) if day else []
    if as_json:
        shown: dict[str, Any] = {
            "days": [asdict(entry) for entry in days],
            "reject_reasons": reasons,
            "quarantine": [asdict(line) for line in quarantined],
        }
        print_json(shown if day else {**shown, "users": users, "items": items})
        return
    rows: list[tuple[Any, ...]] = []
    for d in days:
        malformed = d.rows_rejected - d.rows_set_aside
        counts = (d.files, d.rows_accepted, malformed, d.rows_set_aside)
        rows.append((str(d.day), *counts, d.users, d.items))
    if rows and day is None:
        sums = (sum(row[position] for row in rows) for position in range(1, 5))
        rows.append(("all", *sums, users, items))
    columns = ["day", "files", "rows", "rejected", "set aside", "users", "items"]
    print_table("Log days", columns, rows)
    if reasons:
        print_table("Rows not ingested, by reason", ["reason", "rows"], reasons.items())
    if quarantined:
        lines = [(q.source_file, q.line, q.reason, q.text) for q in quarantined]
        print_table("Quarantine", ["file", "line", "reason", "text"], lines)


@click.command()
@click.argument("days", metavar="DAY|FIRST..LAST", required=False)
@click.option("every", "--all", is_flag=True, help="All days that were excluded or dropped.")
@writes
def accept(settings: Settings, days: str | None, every: bool) -> None:
    """Accept a day, or days, that the gate excluded, or that were dropped.

    Its rows count from then on, as long as its files stay as they are. The days from there on
    are computed again by `mom-pipeline update`, or by the sensor and the nightly schedule.

    \b
    Example:
      mom-pipeline accept 2024-03-15
      mom-pipeline accept 2024-12-20..2024-12-24
    """  # noqa: D301 - \b tells click to keep the lines
    if bool(days) == every:
        raise click.UsageError("give a day, a range such as 2024-12-20..2024-12-24, or --all")
    begin, _, end = (days or f"{FIRST_DAY}..{LAST_DAY}").partition("..")
    first, last = (DAY.convert(text, None, None).date() for text in (begin, end or begin))
    warehouse = Warehouse(settings)
    found = [first] if first == last else undecided_days(warehouse, first, last)
    for day in found:
        click.echo(f"{day} is accepted; it was {accept_day(warehouse, day)}.")
    click.echo(_NEXT if found else "No day there is excluded or dropped.")


@click.command()
@click.argument("day", **A_DAY)
@writes
def drop(settings: Settings, day: date) -> None:
    """Remove the rows of a day: one that the gate excluded, or whose file is gone.

    The files in the logs folder stay. They are not ingested again until they change, or until
    `mom-pipeline accept DAY`.

    \b
    Example:
      mom-pipeline drop 2024-03-15
    """  # noqa: D301 - \b tells click to keep the lines
    click.echo(f"{day} is dropped: {drop_day(Warehouse(settings), day):,} rows removed.\n{_NEXT}")
