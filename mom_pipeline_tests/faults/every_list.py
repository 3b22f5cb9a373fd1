"""Every list of every day, day by day with late, corrected and dropped files, against full fits."""

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from mom_pipeline.bench.day_gate import Events
from mom_pipeline.pipeline.days import Days, NotUsable
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import ids_by_position
from mom_pipeline_tests.cli.conftest import mom

SETTINGS = "[artifacts]\nretention_days = 0\n[serving]\nlist_length = 20\n"
# Scores that are closer than this are a tie.
_TIE = 1e-6


@dataclass
class Compared:
    """lists, equal: of all users and days.  incremental: days that were not computed in full."""

    days: int = 0
    incremental: int = 0
    lists: int = 0
    equal: int = 0
    changes: list[str] = field(default_factory=list)


def lines(events: Events, kept: Sequence[bool] | None = None) -> str:
    """A log file of some events."""
    rows = [
        f"{user},{item},{datetime.fromtimestamp(int(t), tz=UTC):%Y-%m-%dT%H:%M:%S}\n"
        for user, item, t in zip(events.users, events.items, events.times, strict=True)
    ]
    kept = [True] * len(rows) if kept is None else kept
    return "user,item,timestamp\n" + "".join(r for r, k in zip(rows, kept, strict=True) if k)


def day_by_day(folder: Path, log: Mapping[date, Events], seed: int) -> list[str]:
    """Deliver the days of a log one by one, each with an update; return what was out of order.

    A quarter of some days comes later, some are corrected later, and some dropped.
    """
    rng, out_of_order, later = random.Random(seed), list[str](), dict[date, list[str]]()
    names = list(log)
    for day, events in log.items():
        kept = [True] * len(events)
        for change in later.pop(day, []):
            out_of_order.append(f"{day}: {_change(folder, log, change, rng)}")
        kind = rng.choice(("late", "corrected", "dropped", *(("as it is",) * 7)))
        if kind == "late":
            kept = [rng.random() < 0.75 for _ in kept]
            rest = [not one for one in kept]
            (folder / "held").mkdir(exist_ok=True)
            (folder / "held" / f"{day}-late.csv").write_text(lines(events, rest))
        (folder / "logs" / f"{day}.csv").write_text(lines(events, kept))
        if kind != "as it is":
            when = names[min(names.index(day) + rng.randint(1, 3), len(names) - 1)]
            later.setdefault(max(when, day + timedelta(days=1)), []).append(f"{kind} {day}")
        mom(folder, "update")
    shutil.rmtree(folder / "held", ignore_errors=True)
    return out_of_order


def _change(folder: Path, log: Mapping[date, Events], change: str, rng: random.Random) -> str:
    kind, day = change.split()
    if kind == "late":
        (folder / "held" / f"{day}-late.csv").rename(folder / "logs" / f"{day}-late.csv")
    elif kind == "corrected":
        events = log[date.fromisoformat(day)]
        kept = [rng.random() < 0.9 for _ in range(len(events))]
        (folder / "logs" / f"{day}.csv").write_text(lines(events, kept))
    else:
        mom(folder, "drop", day)
    return change


def lists_of(folder: Path, day: date) -> dict[str, list[tuple[str, float]]]:
    """The list of every user of the model of a day: items and scores, ties by the item's id."""
    days = Days(load_settings(folder, {}))
    model, rows = days.model(day), days.rows(day)
    with Warehouse(days.settings).reading() as connection:
        users, items = (ids_by_position(connection, kind) for kind in ("user", "item"))
    best = model.best(rows.X, days.settings.serving.list_length, last_days=rows.last_days)
    return {
        str(users[u]): _by_id([(items[i], s) for i, s in zip(own, scores, strict=True) if i >= 0])
        for u, (own, scores) in enumerate(zip(best.items, best.scores, strict=True))
        if rows.X.indptr[u] < rows.X.indptr[u + 1]
    }


def _by_id(entries: Sequence[tuple[str, Any]]) -> list[tuple[str, float]]:
    """Order the runs of entries whose scores are ties by the ids of the items."""
    ordered: list[tuple[str, float]] = []
    for item, score in entries:
        if ordered and ordered[-1][1] - score <= _TIE * max(1.0, abs(score)):
            score = ordered[-1][1]
        ordered.append((item, float(score)))
    return sorted(ordered, key=lambda entry: (-entry[1], entry[0]))


def n_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> int:
    """How many lists are equal: items, their order, and scores to rounding."""

    def same(own: Any, other: Any) -> bool:
        scores, others = ([score for _, score in entries] for entries in (own, other))
        return [i for i, _ in own] == [i for i, _ in other] and np.allclose(
            scores, others, rtol=_TIE, atol=_TIE
        )

    return sum(user in theirs and same(own, theirs[user]) for user, own in ours.items())


def compare(root: Path, log: Mapping[date, Events], seed: int, settings: str = "") -> Compared:
    """Compute a log day by day and every day in full, and compare all lists of all days."""
    ours, theirs = root / "by day", root / "in full"
    (ours / "logs").mkdir(parents=True)
    (ours / "pipeline.toml").write_text(SETTINGS + settings)
    compared = Compared(changes=day_by_day(ours, log, seed))
    shutil.copytree(ours, theirs)
    made = Days(load_settings(ours, {})).made
    days = sorted(day for asset, day in made if asset == "decomposition")
    mom(theirs, "backfill", "--from", str(days[0]), "--to", str(days[-1]), "--full")
    for day in days:
        try:
            own, full = lists_of(ours, day), lists_of(theirs, day)
        except NotUsable:
            continue
        compared.days += 1
        compared.incremental += made["m2_statistics", day].facts["mode"] == "incremental"
        compared.lists += len(own.keys() | full.keys())
        compared.equal += n_equal(own, full)
    return compared
