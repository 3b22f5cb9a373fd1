"""`mom-pipeline models`, `promote`, `rollback`: which model is in use; `report`: a page on it."""

from dataclasses import asdict
from datetime import date
from typing import Any

import click

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.cli.terminal import day_option, json_option, print_json, print_table
from mom_pipeline.logs.logfiles import printable
from mom_pipeline.serving.diff import ModelDiff, compare_versions
from mom_pipeline.serving.events import EventStore
from mom_pipeline.serving.lists import renew_lists
from mom_pipeline.serving.rates import require_better
from mom_pipeline.serving.registry import PERSON, ModelRegistry, StoredVersion
from mom_pipeline.serving.rules import Rules
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_SHOWN_CHANGES, _SHOWN_ITEMS = 10, 5
_DASH = "–"


@click.command()
@click.argument("pair", nargs=-1, metavar="[A B]")
@json_option
def models(pair: tuple[str, ...], as_json: bool) -> None:
    """Show the versions of the model, which one is in use, and how it came to be.

    MAP is that of the same settings some days before, on the days up to the version's own; a
    version is unproven while there are no such days. Every file is compared with its checksum.
    `--json` shows all that a version was made of. With two versions A and B: what differs from A
    to B in settings, metrics, components and lists.

    \b
    Examples:
      mom-pipeline models
      mom-pipeline models 2024-03-27-0123456789ab 2024-03-28-ba9876543210
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    registry = ModelRegistry(settings.models_dir)
    if len(pair) == 2:
        rules, (one, other) = Rules.of(settings), map(registry.load, pair)
        difference = compare_versions(one, other, rules)
        if as_json:
            print_json(asdict(difference))
        else:
            _print_difference(difference, rules.catalogue)
        return
    if pair:
        raise click.UsageError("give two versions of `mom-pipeline models` to compare, or none")
    versions, history = registry.versions(), registry.history()
    champion = registry.champion_version()
    if as_json:
        entries = [{**asdict(entry), "champion": entry.version == champion} for entry in versions]
        changes = [asdict(change) for change in history]
        print_json({"champion": champion, "versions": entries, "history": changes})
    elif versions:
        columns = ["version", "day", "MAP", "champion", "MB", "state"]
        lines = [_line(entry, champion) for entry in versions]
        print_table("Versions", columns, lines, whole=["version"])
        for entry in versions:
            if entry.damage:
                click.echo(f"Unusable: {entry.damage}")
        for change in history[-_SHOWN_CHANGES:]:
            click.echo(f"{change.time}  {change.version} {change.kind}: {change.reason}")
    else:
        click.echo(f"There is no version in {registry.root} yet; `mom-pipeline update` makes one.")


def _line(entry: StoredVersion, champion: str | None) -> tuple[Any, ...]:
    metrics = entry.manifest.metrics if entry.manifest else {}
    return (
        entry.version,
        entry.version[:10],
        f"{metrics['map']:.4f}" if "map" in metrics else _DASH,
        "yes" if entry.version == champion else "",
        f"{entry.bytes / 1e6:,.2f}",
        "unusable" if entry.damage else ("whole" if metrics else "whole, unproven"),
    )


def _print_difference(difference: ModelDiff, catalogue: Catalogue) -> None:
    columns = ["", *difference.versions]
    sizes = {"users": difference.users, "items": difference.items}
    rows = [(name, *map(_value, pair)) for name, pair in {**difference.settings, **sizes}.items()]
    print_table("Settings that differ, and sizes", columns, rows)
    if difference.metrics:
        rows = [(name, *map(_value, pair)) for name, pair in difference.metrics.items()]
        print_table("Metrics", columns, rows)
    moved = sorted(enumerate(difference.drift, start=1), key=lambda entry: -entry[1])
    shown = ", ".join(f"{number} by {value:.3f}" for number, value in moved[:_SHOWN_CHANGES])
    click.echo(f"Components that moved most (total variation): {shown}.")
    click.echo(
        f"Of {difference.compared:,} users, {difference.same:,} have the same list; a list keeps "
        f"{difference.mean_kept:.0%} of its items."
    )
    for entry in difference.changed:
        both = (map(catalogue.label, items[:_SHOWN_ITEMS]) for items in (entry.added, entry.gone))
        added, gone = (printable(", ".join(labels)) or _DASH for labels in both)
        click.echo(f"{printable(entry.user)}: new {added}; gone {gone}")


def _value(value: Any) -> str:
    if value is None:
        return _DASH
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@click.command()
@click.argument("version", required=False)
@click.option("--auto", is_flag=True, help="Leave the choice to the gate again.")
@click.option("--if-better", is_flag=True, help="Only where `serve --ab` has shown that it is.")
@click.option("--reason", default="by hand", show_default=True, help="Kept in the history.")
def promote(version: str | None, auto: bool, if_better: bool, reason: str) -> None:
    """Put VERSION, one of `mom-pipeline models`, in use, whatever the gate says.

    It is read and checked first; a damaged one leaves the champion where it is. A running
    service takes it up by itself. It stays until `promote --auto` leaves the choice to the gate
    again: the next day that passes then takes over.

    \b
    Examples:
      mom-pipeline promote 2024-03-28-0123456789ab --reason "the new catalogue"
      mom-pipeline promote --auto
    """  # noqa: D301 - \b tells click to keep the lines
    if auto == (version is not None):
        raise click.UsageError("give a VERSION of `mom-pipeline models`, or --auto")
    settings = load_settings()
    registry = ModelRegistry(settings.models_dir)
    if if_better:
        require_better(EventStore(settings), registry.trial(), version)
    before = registry.champion_version()
    if version is None:
        stays = registry.lift(reason) or "No model"
        said = f"{stays} stays in use until the gate lets another one pass."
    else:
        registry.promote(version, reason, by=PERSON)
        said = f"{version} is the champion now, after {before or 'none'}."
        if version == before:
            said = f"{version} is the champion already; the gate does not replace it."
    _renew(settings)
    click.echo(said)


@click.command()
def rollback() -> None:
    """Return to the champion before the one in use; again, to the one before that.

    It stays until `mom-pipeline promote --auto` leaves the choice to the gate again.
    """
    settings = load_settings()
    registry = ModelRegistry(settings.models_dir)
    before = registry.champion_version()
    version = registry.rollback("by hand")
    _renew(settings)
    click.echo(f"{version} is the champion again, instead of {before}.")


def _renew(settings: Settings) -> None:
    """Write the lists of the model in use, so that table and export are those of the service."""
    warehouse = Warehouse(settings)
    if warehouse.exists() and ModelRegistry(settings.models_dir).champion_version():
        renew_lists(settings, warehouse)


@click.command()
@day_option
def report(day: date | None) -> None:
    """Write an HTML page about the model in use as of a day, by default the newest.

    The page is one file in `reports`, without outside resources, for a screen, a phone or paper. It
    begins with a sentence, five people and their lists, coverage and how the model came in use;
    below it stand the backtest and the comparison with other methods, the components and how stable
    they are, drift, Theorem 1, the quality of the data, settings and versions.
    """
    from mom_pipeline.report.page import newest_day, write_report  # loads what charts need

    settings = load_settings()
    written = write_report(settings, day or newest_day(settings))
    if written.problem:
        click.echo(f"Nothing to show: {written.problem}", err=True)
    click.echo(f"{written.path.resolve().as_uri()}, {written.path.stat().st_size / 1000:,.0f} kB")
