"""Flipped bits and swapped blocks in every kind of file of a folder, one at a time."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from mom_pipeline.cli.status import Check, checks
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.faults.folders import copy
from mom_pipeline_tests.faults.kills import Ground

# Every byte of these is under a checksum; of the others some bytes are in no use.
HASHED = (
    *("logs", "artifacts", "models/versions", "models/champion.json"),
    *("erasures", "exports"),
)
KINDS = (*HASHED, "warehouse.duckdb")
_BLOCK = 16


@dataclass
class Damages:
    """tried, seen: by kind of file and of damage.  failures: what was neither seen nor harmless."""

    tried: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def problems(folder: Path) -> list[Check]:
    return [check for check in checks(load_settings(folder, {})) if check.problem]


def damage(folder: Path, kind: str, rng: random.Random) -> tuple[str, Path]:
    """Flip a bit of a file of a kind, or swap two of its blocks; returns which, and where."""
    top = folder / kind
    files = sorted(p for p in top.rglob("*") if p.is_file()) if top.is_dir() else [top]
    path = rng.choice([p for p in files if p.stat().st_size > 2 * _BLOCK])
    before = path.read_bytes()
    # DuckDB's checksum of a block does not tell the order of its words.
    ways = ["flip"] if kind == "warehouse.duckdb" else ["flip", "swap"]
    data, how = bytearray(before), rng.choice(ways)
    while data == before:
        if how == "flip":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            one, other = sorted(rng.sample(range(len(data) // _BLOCK), 2))
            a, b = (
                slice(one * _BLOCK, (one + 1) * _BLOCK),
                slice(other * _BLOCK, (other + 1) * _BLOCK),
            )
            data[a], data[b] = data[b], data[a]
    path.write_bytes(data)
    return how, path


def flips_and_swaps(folder: Path, n: int, seed: int, told: Callable[[str], Any] = print) -> Damages:
    """Damage a sound folder n times, and look whether `status --verify` sees it."""
    rng, found = random.Random(seed), Damages()
    tables = _tables(folder)
    for number in range(n):
        kind = KINDS[number % len(KINDS)]
        whole = {p: p.read_bytes() for p in _files(folder / kind)}
        how, path = damage(folder, kind, rng)
        name = f"{kind}, {how}"
        found.tried[name] += 1
        try:
            seen = bool(problems(folder))
        except Exception as error:  # a failure of the code, to be told
            found.failures.append(f"{number}: {path.name}: {error!r:.200}")
            seen = True
        found.seen[name] += seen
        if not seen and kind in HASHED:
            found.failures.append(f"{number}: a {how} in {path.relative_to(folder)} is not seen")
        if not seen and kind == "warehouse.duckdb" and _tables(folder) != tables:
            found.failures.append(f"{number}: a {how} changed a table, and is not seen")
        for other, content in whole.items():
            other.write_bytes(content)
        if number % 200 == 199:
            told(f"{number + 1} tried, {found.seen.total()} seen, failures: {found.failures}")
    return found


def mended(ground: Ground, folder: Path, n: int, seed: int, told: Any = print) -> Damages:
    """Damage folders n times, and do what is named: `update`, or first what its remedy says."""
    rng, found = random.Random(seed), Damages()
    number = 0
    while found.tried.total() < n:
        number += 1
        copy(ground.fresh, folder)
        kind = rng.choice(["artifacts", "models/versions", "exports", "logs", "warehouse.duckdb"])
        how, path = damage(folder, kind, rng)
        named = problems(folder)
        if not named:
            continue
        name = f"{kind}, {how}"
        found.tried[name] += 1
        for check in named:
            if check.remedy == "deliver the file again":
                shutil.copy2(ground.fresh / path.relative_to(folder), path)
            elif "or remove it" in check.remedy:
                path.unlink(missing_ok=True)
        ended = ground.run.run(folder, "update")
        for check in problems(folder):
            if "`mom-pipeline rollback`" in check.remedy:
                ended = ground.run.run(folder, "rollback")
        left = problems(folder)
        # From nothing all days are through another basis: the same people have lists.
        people = {row[1] for row in _lists(ground.fresh)}
        same = people == {row[1] for row in _lists(folder)}
        same &= kind == "warehouse.duckdb" or _lists(folder) == _lists(ground.fresh)
        if ended.code or left or not same:
            found.failures.append(f"{number}: {path}: {ended} {left}, the same lists: {same}")
            told(found.failures[-1])
        found.mended[name] += not (ended.code or left)
    return found


def _files(top: Path) -> Iterator[Path]:
    yield from (p for p in ([top] if top.is_file() else top.rglob("*")) if p.is_file())


def _tables(folder: Path) -> Any:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        return {name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in names}


def _lists(folder: Path) -> Any:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute("FROM recommendations ORDER BY ALL").fetchall()
