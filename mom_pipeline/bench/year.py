"""Benchmark of a long log: what each further month costs in seconds and on disk."""

import csv
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from mom_pipeline.bench.day_gate import Events, read_log
from mom_pipeline.bench.measure import timed
from mom_pipeline.comparison.run import Progress, no_progress


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
