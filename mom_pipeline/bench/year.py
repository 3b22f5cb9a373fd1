"""Benchmark of a long log: what each further day costs in seconds and on disk."""

import csv
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.artifacts.timings import seconds_of
from mom_pipeline.bench.day_gate import read_log
from mom_pipeline.bench.measure import Progress, Table, no_progress, timed
from mom_pipeline.bench.poison import Events
from mom_pipeline.pictures.charts import xy_curves
from mom_pipeline.pictures.png import png

# Where the bytes of a data folder lie.
_PARTS = ("artifacts", "models", "warehouse.duckdb", "exports", "dagster_home", "logs")
_BYTES_PER_MB = 1e6


def run_year(
    folder: Path,
    log: str = "30music",
    *,
    days: int = 366,
    run_days: int = 28,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Take the days of a log in, in runs of some days, with the default settings.

    After each run the data folder is measured; at the end, what the daily commands take.
    """
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as place:
        data = Path(place)
        log_days = dict(list(read_log(folder, log).items())[:days])
        for day, events in log_days.items():
            _write_day(data / "logs" / f"{day}.csv", events)
        _command(data, "ingest")
        names, runs = list(log_days), []
        for start in range(0, len(names), run_days):
            first, last = names[start], names[min(start + run_days, len(names)) - 1]
            seconds = _command(data, "backfill", "--from", first, "--to", last)
            runs.append({"last": str(last), "seconds": seconds, "bytes": _sizes(data)})
            progress(f"until {last}", min(start + run_days, len(names)) / len(names))
        user = str(log_days[names[-1]].users[0])
        commands = {
            "recommend": _command(data, "recommend", user),
            "status": _command(data, "status"),
            "update with nothing to do": _command(data, "update"),
        }
        return {
            "log": log,
            "n_days": len(names),
            "days": [{"day": str(day), "seconds": seconds_of(data, day)} for day in names],
            "runs": runs,
            "commands": commands,
        }


def tables_year(result: dict[str, Any]) -> list[Table]:
    """A row per run, the assets of a typical day, and the commands at the end."""
    rows = [
        {
            "until": run["last"],
            "seconds": f"{run['seconds']:.0f}",
            **{name: f"{run['bytes'][name] / _BYTES_PER_MB:.0f}" for name in _PARTS},
            "all, MB": f"{sum(run['bytes'].values()) / _BYTES_PER_MB:.0f}",
        }
        for run in result["runs"]
    ]
    assets = [
        {"asset": name, "median seconds": f"{np.median(own):.3f}", "longest": f"{max(own):.1f}"}
        for name, own in _by_asset(result).items()
    ]
    totals = [sum(day["seconds"].values()) for day in result["days"]]
    assets.append(
        {
            "asset": "a day",
            "median seconds": f"{np.median(totals):.3f}",
            "longest": f"{max(totals):.1f}",
        }
    )
    commands = [{"command": n, "seconds": f"{s:.2f}"} for n, s in result["commands"].items()]
    return [
        Table(f"{result['n_days']} days of {result['log']}; MB after each run", rows),
        Table("Seconds of a day", assets),
        Table("Commands with all days stored", commands),
    ]


def plot_year(result: dict[str, Any]) -> bytes:
    """Draw the seconds of every day, and the bytes after every run."""
    days = [datetime.fromisoformat(day["day"]) for day in result["days"]]
    numbers = [float((day - days[0]).days) for day in days]
    chosen = [day["seconds"].get("chosen_settings", 0.0) for day in result["days"]]
    totals = [sum(day["seconds"].values()) for day in result["days"]]
    others = [total - own for total, own in zip(totals, chosen, strict=True)]
    ends = [float((datetime.fromisoformat(run["last"]) - days[0]).days) for run in result["runs"]]
    parts = {
        name: (ends, [run["bytes"][name] / _BYTES_PER_MB for run in result["runs"]])
        for name in _PARTS
    }
    whole = [sum(run["bytes"].values()) / _BYTES_PER_MB for run in result["runs"]]
    # The first one has the legend.
    return png(
        xy_curves({"all": (ends, whole), **parts}, title="On disk", x="day", y="MB"),
        xy_curves(
            {"all": (numbers, others)},
            title=f"A day of {result['log']}, without the choice of settings",
            x="day",
            y="seconds",
        ),
    )


def _write_day(path: Path, events: Events) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("user", "item", "timestamp"))
        times = (f"{datetime.fromtimestamp(t, tz=UTC):%Y-%m-%dT%H:%M:%S}" for t in events.times)
        out.writerows(zip(events.users, events.items, times, strict=True))


def _command(data: Path, *words: object) -> float:
    """Run a command of the pipeline in a process of its own, as people do; return its seconds."""
    run = partial(
        subprocess.run,
        [sys.executable, "-m", "mom_pipeline", *map(str, words)],
        env={**os.environ, "MOM_DATA_DIR": str(data)},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return timed(run)[0].wall


def _sizes(data: Path) -> dict[str, int]:
    """Return the bytes of each part of a data folder; a file with two names counts once."""
    return {name: sum(_files(data / name).values()) for name in _PARTS}


def _files(path: Path) -> dict[int, int]:
    paths = path.rglob("*") if path.is_dir() else [path]
    stats = [own.stat() for own in paths if own.is_file()]
    return {own.st_ino: own.st_blocks * 512 for own in stats}


def _by_asset(result: dict[str, Any]) -> dict[str, list[float]]:
    by_asset: dict[str, list[float]] = {}
    for day in result["days"]:
        for name, seconds in day["seconds"].items():
            by_asset.setdefault(name, []).append(seconds)
    return by_asset
