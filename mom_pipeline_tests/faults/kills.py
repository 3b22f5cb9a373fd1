"""kill -9 at any point of update, erase, promote and rollback; then the same command again.

No row may be lost or doubled, and the end is that of an undisturbed command: arrays, rows,
manifests, exports and versions of the model.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from mom_pipeline.erasure.search import files_with
from mom_pipeline.pipeline.days import LOGS, Days
from mom_pipeline.pipeline.freshness import day_statuses, days_behind
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline_tests.defs.conftest import SERVED
from mom_pipeline_tests.faults.commands import Commands, Ended, Kill, commands
from mom_pipeline_tests.faults.folders import (
    contents,
    copy,
    deliver_late,
    differences,
    left_over,
    write_folder,
)

# Computed again after the late file.
DAYS = ("2024-03-02", "2024-03-03")
USER = "ben-00001"
# Of an update and of an erasure on an idle machine, in seconds; kills come up to twice as late.
_LONGEST = 4.0
# Tables that an erasure leaves the same, whenever it was interrupted.
_ERASED_TABLES = ("raw_logs", "quarantine", "ingest_ledger", "user_dictionary", "item_dictionary")


@dataclass
class Killed:
    """kills: by command, those that came before its end.  failures: what was not as expected."""

    kills: Counter[str] = field(default_factory=Counter)
    too_late: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ground:
    """A folder with stale days, and what an update makes of it."""

    stale: Path
    fresh: Path
    run: Commands

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the fresh folder holds."""
        return contents(self.fresh)

    @cached_property
    def erased(self) -> Path:
        """The fresh folder after an erasure that nobody disturbed."""
        folder = copy(self.fresh, self.fresh.with_name("erased"))
        assert self.run.run(folder, "erase", USER, "--yes").code == 0
        return folder


@contextmanager
def prepared(root: Path) -> Iterator[Ground]:
    """Compute the folders that the kills start from and should end in."""
    with commands() as run:
        stale = write_folder(root / "stale")
        assert run.run(stale, "update").code == 0
        deliver_late(stale)
        fresh = copy(stale, root / "fresh")
        assert run.run(fresh, "update").code == 0
        yield Ground(stale, fresh, run)


def kill_series(root: Path, n_kills: int, seed: int, told: Any = print) -> Killed:
    """Kill commands at `n_kills` points: assets by turns, other commands at random moments."""
    rng = random.Random(seed)
    counts = Killed()
    with prepared(root) as ground:
        points = _points(rng)
        while counts.kills.total() < n_kills:
            command, kill = next(points)
            before = len(counts.failures)
            if command == "update":
                copy(ground.stale, root / "try")
            STRIKES[command](ground, root / "try", kill, counts)
            for failure in counts.failures[before:]:
                told(f"{command}, {kill}: {failure}")
            if counts.kills.total() % 20 == 0:
                told(f"{counts.kills.total()} kills, {len(counts.failures)} failures")
    return counts


def _points(rng: random.Random) -> Iterator[tuple[str, Kill]]:
    """Yield points for ever: every asset and day before, after and within; then the commands."""
    while True:
        at_assets = [
            Kill(asset, day, when, rng.uniform(0.005, 0.15) if when == "within" else 0.0)
            for asset in SERVED
            for day in DAYS
            for when in ("before", "after", "within")
        ]
        rng.shuffle(at_assets)
        for number, kill in enumerate(at_assets):
            yield "update", kill
            if number % 3 == 0:
                yield "update", Kill(seconds=rng.uniform(0.0, 2 * _LONGEST))
                yield "erase", Kill(seconds=rng.uniform(0.0, 2 * _LONGEST))
            if number % 6 == 0:
                yield "promote", Kill(seconds=rng.uniform(0.001, 0.15))
                yield "rollback", Kill(seconds=rng.uniform(0.001, 0.15))


def strike_update(ground: Ground, folder: Path, kill: Kill, counts: Killed) -> None:
    """Kill an update, and compare what the next one makes with an undisturbed one."""
    if not _was_struck(ground.run.run(folder, "update", kill=kill), "update", kill, counts):
        return
    again = ground.run.run(folder, "update")
    if again.code:
        counts.failures.append(f"update ended with {again.code}: {again.output[-300:]}")
    elif different := differences(folder, ground.expected):
        counts.failures.append(f"differs: {different}")


def strike_erase(ground: Ground, folder: Path, kill: Kill, counts: Killed) -> None:
    """Kill an erasure, and let the same command go on."""
    copy(ground.fresh, folder)
    struck = ground.run.run(folder, "erase", USER, "--yes", kill=kill)
    if not _was_struck(struck, "erase", kill, counts):
        return
    again = ground.run.run(folder, "erase", USER, "--yes")
    settings = load_settings(folder, {})
    behind = days_behind(day_statuses(Days(settings)))
    expected, found = contents(ground.erased), contents(folder)
    tables = [
        name for name in expected if name.startswith(tuple(f"table {t}" for t in _ERASED_TABLES))
    ]
    problems = {
        f"erase ended with {again.code}: {again.output[-300:]}": again.code != 0,
        f"the id is in {files_with(folder, [USER])}": bool(files_with(folder, [USER])),
        f"days are behind: {behind}": bool(behind),
        "log files differ": expected["logs"] != found["logs"],
        "rows differ": any(expected[name] != found.get(name) for name in tables),
        f"left over: {left_over(folder)}": bool(left_over(folder)),
        "arrays differ": not _same_arrays(settings, load_settings(ground.erased, {})),
    }
    counts.failures += [problem for problem, there in problems.items() if there]


def _same_arrays(settings: Settings, others: Settings) -> bool:
    """Up to rounding: a day that was interrupted is summed over all its rows."""
    for asset in ("interaction_matrix", "m2_statistics", "decomposition"):
        for day in DAYS:
            ours, theirs = (
                _dense(Days(s).arrays(asset, date.fromisoformat(day))) for s in (settings, others)
            )
            if ours.keys() != theirs.keys():
                return False
            for name, array in ours.items():
                scale = np.abs(theirs[name]).max(initial=1e-12)
                if array.shape != theirs[name].shape or not np.allclose(
                    array, theirs[name], rtol=0, atol=1e-6 * scale
                ):
                    return False
    return True


def _dense(arrays: dict[str, Any]) -> dict[str, Any]:
    return {n: a.toarray() if hasattr(a, "toarray") else a for n, a in arrays.items() if n != LOGS}


def strike_promote(ground: Ground, folder: Path, kill: Kill, counts: Killed) -> None:
    """Kill a promotion: the champion is the old or the new one, and both are whole."""
    copy(ground.fresh, folder)
    registry = ModelRegistry(folder / "models")
    before, first = registry.champion_version(), registry.names()[0]
    if not _was_struck(
        ground.run.run(folder, "promote", first, kill=kill), "promote", kill, counts
    ):
        return
    _require_champion(registry, {before, first}, counts)
    ground.run.run(folder, "promote", first)
    _require_champion(registry, {first}, counts)
    _require_lists(folder, first, counts)


def strike_rollback(ground: Ground, folder: Path, kill: Kill, counts: Killed) -> None:
    """Kill a rollback: the champion is the old one or the one before it."""
    copy(ground.fresh, folder)
    registry = ModelRegistry(folder / "models")
    now, before = registry.champion_version(), registry.history()[-2].version
    if not _was_struck(ground.run.run(folder, "rollback", kill=kill), "rollback", kill, counts):
        return
    _require_champion(registry, {now, before}, counts)
    if registry.champion_version() == now:
        ground.run.run(folder, "rollback")
    _require_champion(registry, {before}, counts)


def _require_champion(registry: ModelRegistry, allowed: set[str | None], counts: Killed) -> None:
    champion = registry.champion().manifest.version
    if champion not in allowed or any(entry.damage for entry in registry.versions()):
        counts.failures.append(f"the champion is {champion}, expected one of {allowed}")


def _require_lists(folder: Path, version: str, counts: Killed) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        found = connection.execute("SELECT DISTINCT model FROM recommendations").fetchall()
    if found != [(version,)]:
        counts.failures.append(f"the lists are those of {found}, expected {version}")


def _was_struck(ended: Ended, command: str, kill: Kill, counts: Killed) -> bool:
    """Whether the command ended by the strike: killed, or with a sentence."""
    failed = kill.when == "fail" and ended.code == 1
    if failed and "Traceback" in ended.output:
        counts.failures.append(f"no sentence: {ended.output[-300:]}")
    if failed or ended.code == -9:
        counts.kills[command] += 1
        return True
    counts.too_late += 1
    if ended.code:
        counts.failures.append(f"{command} ended with {ended.code} before it could be killed")
    # A write that failed may cost nothing, such as a report of what is known: the end is the same.
    return kill.when == "fail"


STRIKES = {
    "update": strike_update,
    "erase": strike_erase,
    "promote": strike_promote,
    "rollback": strike_rollback,
}


# Commands of which every point is struck, and how each strike is checked.
AT_POINTS = ("update", "erase", "promote")


def count_points(ground: Ground, folder: Path, command: str) -> Counter[str]:
    """How many writes, renames, removals, fsyncs and commits a command makes, by kind."""
    copy(ground.stale if command == "update" else ground.fresh, folder)
    words = {"erase": ("erase", USER, "--yes"), "promote": ("promote", _first(folder))}
    done = ground.run.run(
        folder, *words.get(command, (command,)), kill=Kill(when="count", point=1 << 40)
    )
    assert done.code == 0, done.output
    return Counter(json.loads(done.output.splitlines()[-1]))


def strike_points(root: Path, seconds: float, seed: int, told: Any = print) -> Killed:
    """Kill commands, or let them fail, at points in a random order while there is time."""
    counts, end = Killed(), time.monotonic() + seconds
    with prepared(root) as ground:
        points = list[tuple[str, Kill]]()
        for command in AT_POINTS:
            known = count_points(ground, root / "try", command)
            told(f"{command}: {known.total()} points {dict(known)}")
            numbers = range(1, known.total() + 1)
            points += [(command, Kill(when=h, point=n)) for n in numbers for h in ("kill", "fail")]
        random.Random(seed).shuffle(points)
        for done, (command, kill) in enumerate(points):
            if time.monotonic() > end:
                told(f"{done} of {len(points)} points in the time given")
                break
            before = len(counts.failures)
            if command == "update":
                copy(ground.stale, root / "try")
            STRIKES[command](ground, root / "try", kill, counts)
            for failure in counts.failures[before:]:
                told(f"{command}, {kill}: {failure}")
    return counts


def _first(folder: Path) -> str:
    return ModelRegistry(folder / "models").names()[0]
