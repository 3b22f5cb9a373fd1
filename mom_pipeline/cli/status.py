"""`mom-pipeline status`: the state of every day, the settings, the sizes on disk."""

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.writer import LOCK, writer_of
from mom_pipeline.cli.failures import sentence_for
from mom_pipeline.cli.logs import print_set_aside
from mom_pipeline.cli.run import model_in_use
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.cli.verify import damages
from mom_pipeline.dagster_home import failed_days
from mom_pipeline.defs.freshness import freshness
from mom_pipeline.logs.logfiles import discover
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_MEGABYTE = 1_000_000
_NOT_OF_EVERY_DAY = ("model_comparison",)
_SHOWN_SETTINGS = (
    "pipeline",
    "matrix",
    "model",
    "ranking",
    "rebuild",
    "serving",
    "evaluation",
    "promotion",
    "comparison",
    "artifacts",
)


@click.command()
@click.option("--verify", is_flag=True, help="Compare every file with its checksum instead.")
@json_option
def status(verify: bool, as_json: bool) -> None:
    """Show the state of every day, the model in use, the settings and the sizes on disk.

    \b
    fresh     computed from the present logs, settings and code
    stale     one of these has changed since; `mom-pipeline update` computes it again
    missing   not computed yet; `mom-pipeline update` does
    failed    its newest run failed; the page Runs of `mom-pipeline ui` says why
    refused   a file of it was not taken; the reason says what to correct
    kept out  it differs from the days before: `accept DAY` takes it in, `drop DAY` removes it
    removed   a file of it is no longer in the folder; its rows stay until `drop DAY`
    waiting   its file is of a day that has not come yet
    too early its file lies before pipeline.start_date
    expired   its arrays were removed (artifacts.retention_days); `backfill` computes them again

    \b
    Examples:
      mom-pipeline status
      mom-pipeline status --json
      mom-pipeline status --verify
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    if verify:
        _verify(settings, as_json=as_json)
        return
    days = _days(settings)
    sizes, set_aside = _disk_sizes(settings.data_dir), discover(settings.logs_dir).set_aside
    shown = {name: asdict(getattr(settings, name)) for name in _SHOWN_SETTINGS}
    if as_json:
        aside = [asdict(entry) for entry in set_aside]
        print_json({"days": days, "set_aside": aside, "settings": shown, "bytes": sizes})
        return
    columns = ["day", "files", "mode", "status", "reason"]
    if writer := writer_of(settings):
        click.secho(f"Being written to: {writer}.", fg="yellow", err=True)
    print_table("Days", columns, [[str(d["day"]), *(d[c] for c in columns[1:])] for d in days])
    print_set_aside(set_aside)
    click.echo(model_in_use(settings))
    lines = [(f"{s}.{k}", str(v)) for s, values in shown.items() for k, v in values.items()]
    print_table(f"Settings of {settings.data_dir}", ["key", "value"], lines)
    rows = [(name, round(size / _MEGABYTE, 2)) for name, size in sizes.items()]
    print_table("On disk", ["what", "MB"], rows)


def _verify(settings: Settings, *, as_json: bool) -> None:
    """Show what is damaged and what to run; exit code 1 if anything is."""
    looked: list[None] = []
    damaged = list(damages(settings, lambda: looked.append(None)))
    if as_json:
        print_json({"checked": len(looked), "damaged": [asdict(damage) for damage in damaged]})
    else:
        click.echo(f"{len(looked):,} files and tables checked, {len(damaged):,} damaged.")
        for damage in damaged:
            click.echo(f"{damage.where}: {damage.problem}\n  What to do: {damage.remedy}")
    if damaged:
        raise SystemExit(1)


def _days(settings: Settings) -> list[dict[str, Any]]:
    """Return the freshness of every day; a failure in Dagster's history comes first."""
    days = freshness(Warehouse(settings), DayState(settings))
    try:
        failed = failed_days(settings, besides=_NOT_OF_EVERY_DAY)
    except Exception as error:
        if not (sentence := sentence_for(error)):
            raise
        click.secho(f"Failures of runs are not shown: {sentence}.", fg="yellow", err=True)
        failed = {}
    return [{**asdict(entry), **_failure(failed.get(str(entry.day)))} for entry in days]


def _failure(asset: str | None) -> dict[str, str]:
    return {"status": "failed", "reason": f"{asset} failed"} if asset else {}


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
