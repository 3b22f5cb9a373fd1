"""`mom-pipeline bench pipeline`: what Dagster adds to the bare library calls of a day."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mom_pipeline.cli.terminal import json_option, print_json, print_table, share_progress
from mom_pipeline.settings import DATA_DIR_VARIABLE

# The promise: a day costs at most so many times the bare calls, and so much for every asset.
_TIMES, _SECONDS_PER_ASSET = 1.3, 0.5


@click.command("pipeline")
@click.option("--users", default=24_304, show_default=True)
@click.option("--items", default=21_533, show_default=True)
@click.option("--pairs", default=417_246, show_default=True)
@click.option("--components", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
@json_option
def bench_pipeline(
    users: int, items: int, pairs: int, components: int, seed: int, as_json: bool
) -> None:
    """A day through Dagster against the same library calls without it, at Ta-Feng's size.

    The first day is computed in full; on the second 2 % of the users changed. Each side has a
    process and a data folder of its own; imports are not counted.
    """
    with share_progress("pipeline") as progress:
        result = run_pipeline(users, items, pairs, components, seed, progress)
    if as_json:
        print_json(result)
        return
    for day in result["days"]:
        title = (
            f"{day['day']}: {day['dagster_seconds']:.1f} s with Dagster, "
            f"{day['bare_seconds']:.1f} s bare; allowed {day['allowed_seconds']:.1f} s"
        )
        columns = ["asset", "with Dagster, s", "bare, s"]
        rows = [(a["asset"], f"{a['dagster']:.2f}", f"{a['bare']:.2f}") for a in day["assets"]]
        print_table(title, columns, rows, numbers=columns[1:])


def run_pipeline(
    n_users: int,
    n_items: int,
    n_pairs: int,
    n_components: int,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Run both sides on the same logs."""
    from mom_pipeline.bench.pipeline import run_bare, write_folder
    from mom_pipeline.bench.processes import in_a_process

    with tempfile.TemporaryDirectory(prefix="mom-bench-") as scratch:
        folders = Path(scratch) / "bare", Path(scratch) / "dagster"
        for folder in folders:
            write_folder(folder, n_users, n_items, n_pairs, n_components, seed)
        progress(0.2)
        found = []
        for work, folder in zip((run_bare, run_through_dagster), folders, strict=True):
            found.append(in_a_process(work, folder, environment={DATA_DIR_VARIABLE: str(folder)}))
            progress(0.2 + 0.4 * len(found))
    bare, through_dagster = found
    return {"days": [_compared(day, bare[day], through_dagster[day]) for day in bare]}


def run_through_dagster(folder: Path) -> dict[str, dict[str, Any]]:
    """Materialize every asset of both days, each day in a run of its own."""
    from mom_pipeline.artifacts.timings import seconds_of
    from mom_pipeline.bench.pipeline import FIRST, SECOND
    from mom_pipeline.cli.run import run_days
    from mom_pipeline.definitions import ASSETS
    from mom_pipeline.settings import load_settings

    settings = load_settings(folder)
    found = {}
    for day in (FIRST, SECOND):
        begin = time.perf_counter()
        run_days(settings, day, day)
        seconds = time.perf_counter() - begin
        own = seconds_of(folder, day)
        found[str(day)] = {
            "total": seconds,
            "assets": {a.key.to_user_string(): own[a.key.to_user_string()] for a in ASSETS},
        }
    return found


def _compared(day: str, bare: dict[str, float], dagster: dict[str, Any]) -> dict[str, Any]:
    total = sum(bare.values())
    assets = dagster["assets"]
    return {
        "day": day,
        "dagster_seconds": dagster["total"],
        "bare_seconds": total,
        "allowed_seconds": _TIMES * total + _SECONDS_PER_ASSET * len(assets),
        "assets": [
            {"asset": name, "dagster": seconds, "bare": bare.get(name, 0.0)}
            for name, seconds in assets.items()
        ],
    }
