"""`mom-pipeline status`: the state of every day, the settings, the sizes on disk."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.cli.run import dagster_instance
from mom_pipeline.cli.terminal import json_option, print_json, print_table
from mom_pipeline.defs.freshness import freshness
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse

_MEGABYTE = 1_000_000
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
@json_option
def status(as_json: bool) -> None:
    """Show the days (fresh, stale, missing, failed, expired), the settings and the sizes on disk.

    A day is stale when its log files, the deliveries before it, the settings or the code have
    changed since; `mom-pipeline update` computes it again. The arrays of an expired day were
    removed (`artifacts.retention_days`); `mom-pipeline backfill` computes them again.

    \b
    Examples:
      mom-pipeline status
      mom-pipeline status --json
    """  # noqa: D301 - \b tells click to keep the lines
    settings = load_settings()
    days = _days(settings)
    sizes = _disk_sizes(settings.data_dir)
    shown = {name: asdict(getattr(settings, name)) for name in _SHOWN_SETTINGS}
    if as_json:
        print_json({"days": days, "settings": shown, "bytes": sizes})
        return
    columns = ["day", "files", "mode", "status", "reason"]
    print_table("Days", columns, [[str(d["day"]), *(d[c] for c in columns[1:])] for d in days])
    lines = [(f"{s}.{k}", str(v)) for s, values in shown.items() for k, v in values.items()]
    print_table(f"Settings of {settings.data_dir}", ["key", "value"], lines)
    rows = [(name, round(size / _MEGABYTE, 2)) for name, size in sizes.items()]
    print_table("On disk", ["what", "MB"], rows)


def _days(settings: Settings) -> list[dict[str, Any]]:
    """Return the freshness of every day; a failure in Dagster's history comes first."""
    days = freshness(Warehouse(settings), DayState(settings))
    failed = _failed_days(settings, [str(entry.day) for entry in days])
    return [{**asdict(entry), **failed.get(str(entry.day), {})} for entry in days]


def _failed_days(settings: Settings, keys: list[str]) -> dict[str, dict[str, str]]:
    """Return the days of which the newest attempt at an asset failed, with status and reason."""
    from mom_pipeline.definitions import ASSETS
    from mom_pipeline.defs.partitions import DAILY

    failed: dict[str, dict[str, str]] = {}
    with dagster_instance(settings) as instance:
        for asset in ASSETS:
            by_key = instance.get_status_by_partition(asset.key, keys, DAILY) or {}
            for key, state in by_key.items():
                if state is not None and state.name == "FAILED":  # its enum is not public
                    reason = f"{asset.key.to_user_string()} failed"
                    failed.setdefault(key, {"status": "failed", "reason": reason})
    return failed


def _disk_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of every entry of a folder, largest first."""
    sizes = {
        path.name: sum(f.stat().st_size for f in (path, *path.rglob("*")) if f.is_file())
        for path in (folder.iterdir() if folder.is_dir() else [])
    }
    return dict(sorted(sizes.items(), key=lambda entry: -entry[1]))
