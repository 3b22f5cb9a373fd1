"""`mom-pipeline status` and `logs`: how things are; `accept` and `drop`: decisions on a day."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import click
import duckdb

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
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import sha256_of
from mom_pipeline.errors import DamagedArtifact
from mom_pipeline.logs import ledger
from mom_pipeline.logs.decisions import accept_day, drop_day, undecided_days
from mom_pipeline.logs.ledger import ledger_entries
from mom_pipeline.logs.logfiles import FIRST_DAY, LAST_DAY, discover
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses
from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.registry import PERSON, UNUSABLE, ModelRegistry, NoChampion
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.erased import (
    ErasuresNotWhole,
    read_receipt,
    receipts_gone,
    receipts_in,
    salt_of,
)
from mom_pipeline.warehouse.lists import is_whole_export

_SHOWN, _SHOWN_LINES = 5, 200
_NEXT = "Next: `mom-pipeline update` computes the days from there on."
_RESTORE = "restore it from a copy, or remove it: `mom-pipeline update` reads the log files again"
_HISTORY = "move dagster_home away: the next run makes a new one; days and models are not in it"
_ERASURES = "put erasures/ back from a copy"
_MISCOUNTED = """
SELECT source_file, coalesce(rows_accepted, 0), coalesce(n, 0) FROM ingest_ledger FULL JOIN
(SELECT source_file, count(*) AS n FROM raw_logs GROUP BY ALL) USING (source_file)
WHERE coalesce(rows_accepted, 0) <> coalesce(n, 0) ORDER BY ALL"""


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


@dataclass(frozen=True)
class Check:
    """A file or table. problem: "" where it is as it was written.  remedy: what to do about it."""

    where: str
    problem: str = ""
    remedy: str = ""


def checks(settings: Settings) -> Iterator[Check]:
    """Every file and table, and what is wrong with it."""
    places = (_in_warehouse, _in_artifacts, _in_export, _in_models, _in_erasures, _in_history)
    for place in places:
        yield from place(settings)


def _in_warehouse(settings: Settings) -> Iterator[Check]:
    """Read every column of every table; count the rows of every file; hash every log file."""
    warehouse = Warehouse(settings)
    if not warehouse.exists():
        return
    where = warehouse.path.name
    try:
        with warehouse.reading() as connection:
            for (table,) in connection.execute("SHOW TABLES").fetchall():
                connection.execute(f'SELECT bit_xor(hash(t)) FROM "{table}" AS t').fetchall()  # noqa: S608
                yield Check(f"{where}/{table}")
            for source, taken, counted in connection.execute(_MISCOUNTED).fetchall():
                problem = f"{source}: {taken} rows were taken, {counted} are there"
                yield Check(where, problem, _RESTORE)
            gone = receipts_gone(connection, receipts_in(settings.erasures_dir))
            yield Check("erasures", gone, _ERASURES)
            yield from _in_logs(connection, settings)
    except (duckdb.Error, MomError) as error:
        yield Check(where, str(error), _RESTORE)


def _in_logs(connection: Connection, settings: Settings) -> Iterator[Check]:
    """Files whose bytes changed although neither size nor time say so are not seen otherwise."""
    for entry in ledger_entries(connection):
        path = settings.logs_dir / entry.source_file
        if path.is_file() and path.stat().st_size == entry.size_bytes:  # else `status` says so
            changed = sha256_of(path) != entry.sha256
            problem = "its bytes are not those that were ingested" if changed else ""
            yield Check(f"logs/{entry.source_file}", problem, "deliver the file again")


def _in_artifacts(settings: Settings) -> Iterator[Check]:
    """Every file that the ledger points to, of the days that keep theirs."""
    days = Days(settings)
    try:
        kept = days.kept_files()
    except (duckdb.Error, MomError):  # the ledger cannot be read: the warehouse is named already
        return
    for asset, version in sorted(kept):
        problem = ""
        try:
            days.store.read(asset, version)
        except DamagedArtifact as error:
            problem = str(error)
        remedy = "`mom-pipeline update` computes its days again"
        yield Check(f"artifacts/{asset}/{version}", problem, remedy)


def _in_export(settings: Settings) -> Iterator[Check]:
    path = export_path(settings)
    problem = "" if is_whole_export(path) else "it is not what was written"
    where = str(path.relative_to(settings.data_dir))
    yield Check(where, problem, "`mom-pipeline update` writes it again")


def _in_models(settings: Settings) -> Iterator[Check]:
    registry, champion = ModelRegistry(settings.models_dir), None
    try:
        champion = registry.champion_version()
    except MomError as error:
        yield Check("models/champion.json", str(error), "`mom-pipeline promote VERSION`")
    for entry in registry.versions():
        used, day = "`mom-pipeline rollback` puts the one before it in use", entry.version[:10]
        again = (
            f"`mom-pipeline update` removes it, `backfill --from {day} --to {day}` makes another"
        )
        remedy = used if entry.version == champion else again
        yield Check(f"models/versions/{entry.version}", entry.damage, remedy)


def _in_erasures(settings: Settings) -> Iterator[Check]:
    """The key of the erasures, and every receipt that was signed with it."""
    for path in sorted(settings.erasures_dir.glob("*.json")):
        problem, remedy = "", "`mom-pipeline erase` again with the same ids goes on"
        try:
            if not read_receipt(path, salt_of(settings.erasures_dir))["finished"]:
                problem = "the erasure was begun and is not finished"
        except ErasuresNotWhole as error:
            problem, remedy = str(error), _ERASURES
        yield Check(f"erasures/{path.name}", problem, remedy)


def _in_history(settings: Settings) -> Iterator[Check]:
    for path in sorted((settings.data_dir / "dagster_home").rglob("*.db")):
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                [(answer,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
        except sqlite3.Error as error:
            answer = str(error)
        problem = "" if answer == "ok" else answer
        yield Check(str(path.relative_to(settings.data_dir)), problem, _HISTORY)
