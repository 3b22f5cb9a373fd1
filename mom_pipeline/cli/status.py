"""`mom-pipeline status`: the model in use, what needs a hand, and on request every day."""

import os
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from mom_pipeline.artifacts.lock import LOCK, writer_of
from mom_pipeline.cli.logs import print_set_aside
from mom_pipeline.cli.run import UNUSABLE, model_in_use
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.cli.verify import damages
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.pipeline.days import Days
from mom_pipeline.pipeline.freshness import day_statuses
from mom_pipeline.serving.registry import ModelRegistry, NoChampion
from mom_pipeline.settings import Settings, load_settings

_MEGABYTE = 1_000_000
_SHOWN = 5


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
    damage = _damage(settings)
    days = day_statuses(Days(settings))
    set_aside = discover(settings.logs_dir).set_aside
    if as_json:
        sizes = _disk_sizes(settings.data_dir)
        shown = settings.model_dump(mode="json", exclude={"data_dir", "fixed"})
        values = {"model_in_use": damage or model_in_use(settings, days), "damaged": bool(damage)}
        aside = [asdict(entry) for entry in set_aside]
        entries = [asdict(entry) for entry in days]
        print_json(
            {**values, "days": entries, "set_aside": aside, "settings": shown, "bytes": sizes}
        )
        raise SystemExit(1 if damage else 0)
    if damage:
        click.secho(f"The model in use is not whole: {damage}", fg="red")
    else:
        click.echo(model_in_use(settings, days))
    if writer := writer_of(settings):
        click.secho(f"Being written to: {writer}.", fg="yellow", err=True)
    counts = Counter(entry.status for entry in days)
    words = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    click.echo(f"Days: {words or 'none yet'}.")
    noteworthy = [entry for entry in days if entry.noteworthy]
    for entry in noteworthy[-_SHOWN:]:
        click.echo(f"{entry.day} {entry.status}: {entry.reason}")
    print_set_aside(set_aside)
    if any(entry.behind for entry in days):
        click.echo("`mom-pipeline update` computes what is missing or stale.")
    if all_days:
        _print_all(settings, days)
    elif days:
        click.echo("All days, settings and sizes: `mom-pipeline status --days`.")
    if damage:
        raise SystemExit(1)


def _damage(settings: Settings) -> str:
    """What is wrong with the model in use; "" where it is whole, or there is none yet."""
    try:
        ModelRegistry(settings.models_dir, mapped=True).champion()
    except NoChampion:
        return ""
    except UNUSABLE as error:
        return f"{error}. `mom-pipeline update` mends it, or puts the last whole one in use"
    return ""


def _print_all(settings: Settings, days: list) -> None:  # type: ignore[type-arg]
    columns = ["day", "files", "mode", "status", "reason"]
    rows = [[str(d.day), d.files, d.mode, d.status, d.reason] for d in days]
    print_table("Days", columns, rows)
    shown = settings.model_dump(mode="json", exclude={"data_dir", "fixed"})
    lines = [(f"{s}.{k}", str(v)) for s, values in shown.items() for k, v in values.items()]
    print_table(f"Settings of {settings.data_dir}", ["key", "value"], lines)
    sizes = _disk_sizes(settings.data_dir).items()
    print_table("On disk", ["what", "MB"], [(n, round(size / _MEGABYTE, 2)) for n, size in sizes])


def _verify(settings: Settings, *, as_json: bool) -> None:
    """Show what is damaged and what to run; exit code 1 if anything is."""
    checked: list[None] = []
    damaged = list(damages(settings, lambda: checked.append(None)))
    if as_json:
        print_json({"checked": len(checked), "damaged": [asdict(damage) for damage in damaged]})
    else:
        click.echo(f"{len(checked):,} files and tables checked, {len(damaged):,} damaged.")
        for damage in damaged:
            click.echo(f"{damage.where}: {damage.problem}\n  What to do: {damage.remedy}")
    if damaged:
        raise SystemExit(1)


def _disk_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of every entry of a folder, largest first."""
    entries = folder.iterdir() if folder.is_dir() else []
    sizes = {path.name: _size(path) for path in entries if path.name != LOCK}
    return dict(sorted(sizes.items(), key=lambda entry: -entry[1]))


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what vanishes counts nothing."""
    size, waiting = 0 if path.is_dir() else path.stat().st_size, [path] if path.is_dir() else []
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    return size
