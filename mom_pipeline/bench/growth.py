"""Benchmarks of growth: a fit from shards as the users become more, a log day by day."""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.data import ClusteredCatalogue
from mom_pipeline.bench.day_gate import Events, read_log
from mom_pipeline.bench.measure import in_a_process, timed
from mom_pipeline.comparison.isolated import peak_bytes
from mom_pipeline.comparison.run import Progress, no_progress, within
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.engine import LocalEngine, ShardedUsers, Shards, ShardWriter
from mom_pipeline.engine.shards import suitable_number

_USERS, _ITEMS, _PAIRS = 10_000_000, 718_675, 57_000_000
_USERS_PER_BLOCK = 1_000_000
# Of the progress bar: writing the data.
_DATA_SHARE = 0.3


def run_growth(
    scale: float = 1.0,
    *,
    n_components: int = 100,
    eighths: Sequence[int] = (1, 2, 4, 8),
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit some eighths of the users, each in a process of its own; slope 1 is linear time."""
    n_users, n_pairs = round(scale * _USERS), round(scale * _PAIRS)
    n_items = round(min(scale, 1.0) * _ITEMS)
    tell, rows = within(progress, _DATA_SHARE, 1 - _DATA_SHARE), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as folder:
        shards = _write(folder, n_users, n_items, n_pairs, within(progress, 0.0, _DATA_SHARE))
        for eighth in eighths:
            part = first_part(shards, eighth / 8)
            tell(f"{part.shape[0]:,} users", sum(eighths[: len(rows)]) / sum(eighths))
            rows.append(in_a_process(_fit, part, n_components))
    users, seconds = ([row[name] for row in rows] for name in ("users", "seconds"))
    slope = np.polyfit(np.log(users), np.log(seconds), 1)[0] if len(users) > 1 else None
    return {
        "items": n_items,
        "n_components": n_components,
        "slope": None if slope is None else float(slope),
        "rows": [row | {"multiple": row["seconds"] / seconds[0]} for row in rows],
    }


def first_part(shards: Shards, share: float) -> Shards:
    """Return the first shards as a data set of their own."""
    entries = shards.entries[: round(share * len(shards.entries))]
    n_users = sum(entry.n_users for entry in entries)
    return replace(shards, shape=(n_users, shards.shape[1]), entries=entries)


def _write(url: str, n_users: int, n_items: int, n_pairs: int, progress: Progress) -> Shards:
    rng = np.random.default_rng(0)
    catalogue = ClusteredCatalogue.random(n_items, min(100, n_items), rng)
    per_eighth = -(-suitable_number(n_pairs) // 8)
    with ShardWriter(url, n_items, per_eighth * 8) as writer:
        for start in range(0, n_users, _USERS_PER_BLOCK):
            stop = min(start + _USERS_PER_BLOCK, n_users)
            pairs = n_pairs * stop // n_users - n_pairs * start // n_users
            writer.add(catalogue.interactions(stop - start, pairs, rng))
            progress("data", stop / n_users)
    return writer.shards


def _fit(shards: Shards, n_components: int) -> dict[str, Any]:
    model = MethodOfMoments(n_components, ranking="components")
    fit, _ = timed(lambda: model.fit_users(ShardedUsers(LocalEngine(), shards)))
    everyone, users = timed(
        lambda: sum(len(model.personalize(shards.read(i).X)) for i in range(len(shards.entries)))
    )
    return {
        "users": users,
        "interactions": shards.n_pairs,
        "seconds": fit + everyone,
        "fit_seconds": fit,
        "peak_gigabytes": peak_bytes() / 1e9,
        "stages": model.diagnostics["seconds"],
    }


def run_year(
    folder: Path,
    log: str = "30music",
    *,
    days: int = 366,
    run_days: int = 28,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Ingest a log in runs of some days, with the default settings, and measure the folder."""
    log_days = dict(list(read_log(folder, log).items())[:days])
    names, runs = list(log_days), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="mom-bench-") as place:
        data = Path(place)
        for day, events in log_days.items():
            _write_day(data / "logs" / f"{day}.csv", events)
        for start in range(0, len(names), run_days):
            own = names[start : start + run_days]
            seconds = _command(data, "backfill", "--from", own[0], "--to", own[-1])
            parts = {path.name: megabytes(path) for path in sorted(data.iterdir())}
            costs = {"seconds": seconds, "a_day": seconds / len(own)}
            sizes = {"megabytes": sum(parts.values()), "parts": parts}
            runs.append({"until": str(own[-1]), **costs, **sizes})
            progress(f"until {own[-1]}", (start + len(own)) / len(names))
        asked = (("recommend", str(log_days[names[-1]].users[0])), ("status",), ("update",))
        commands = [{"command": words[0], "seconds": _command(data, *words)} for words in asked]
    seconds = sum(run["seconds"] for run in runs)
    return {"log": log, "days": len(names), "seconds": seconds, "runs": runs, "commands": commands}


def _write_day(path: Path, events: Events) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("user", "item", "timestamp"))
        times = (f"{datetime.fromtimestamp(t, tz=UTC):%Y-%m-%dT%H:%M:%S}" for t in events.times)
        out.writerows(zip(events.users, events.items, times, strict=True))


def _command(data: Path, *words: object) -> float:
    """Run a command in a process of its own, as people do; return its seconds."""
    run = partial(
        subprocess.run,
        [sys.executable, "-m", "mom_pipeline", *map(str, words)],
        env={**os.environ, "MOM_DATA_DIR": str(data)},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return timed(run)[0]


def megabytes(path: Path) -> float:
    """Return what a file or folder takes on disk; a file with two names counts once."""
    stats = [own.stat() for own in (path, *path.rglob("*")) if own.is_file()]
    return sum({own.st_ino: own.st_blocks * 512 for own in stats}.values()) / 1e6
