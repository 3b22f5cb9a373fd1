"""Bench of the gate for new days: what it keeps out, of poisoned days and of normal ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scipy import sparse

from mom_pipeline.bench.measure import Progress, Table, no_progress
from mom_pipeline.bench.poison import POISONS, Events, Surroundings
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.evaluation.lift import Lift, lift, lift_objection
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import UsersInMemory
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.logs.admission import usual_since
from mom_pipeline.logs.day_figures import DayFigures, day_figures
from mom_pipeline.logs.objections import objections
from mom_pipeline.settings import MatrixSettings
from mom_pipeline.warehouse.connection import load_sql

# Users, items and times of all events in the order of time, from the published files.
_LOGS = {
    "30music": (
        "30music.parquet",
        """
        SELECT user_id::VARCHAR AS users, song_id::VARCHAR AS items, ts::BIGINT AS times
        FROM read_parquet($path) ORDER BY times, users, items
        """,
    ),
    "movietweetings": (
        "movietweetings/ratings.dat.gz",
        """
        SELECT column0 AS users, column1 AS items, column3::BIGINT AS times
        FROM read_csv($path, delim = '::', header = false, all_varchar = true)
        ORDER BY times, users, items
        """,
    ),
    "online-retail": (
        "online_retail.csv.gz",
        """
        SELECT
            CustomerID AS users,
            StockCode AS items,
            epoch(InvoiceDate::TIMESTAMP)::BIGINT AS times
        FROM read_csv($path, all_varchar = true)
        WHERE CustomerID IS NOT NULL AND Quantity::INTEGER > 0 AND NOT starts_with(InvoiceNo, 'C')
        ORDER BY times, users, items
        """,
    ),
}
_INSERT = """
INSERT INTO raw_logs
SELECT
    $day || '.csv', row_number() OVER (), $day::DATE, to_timestamp(seconds), user_id, item_id, 1
FROM (
    SELECT
        unnest($users::VARCHAR[]) AS user_id,
        unnest($items::VARCHAR[]) AS item_id,
        unnest($seconds::BIGINT[]) AS seconds
)
"""


def run_day_gate(
    folder: Path,
    log: str = "30music",
    *,
    tried: int = 12,
    refit: int = 7,
    n_components: int = 100,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Judge the days of a log in order, and poisoned versions of some of them.

    A day that is kept out stays out of the days after it.  refit: days from one fit of the
    model to the next; 0: figures alone.
    """
    days = read_log(folder, log)
    other = list(read_log(folder, _other_log(folder, log)).values())
    rng = np.random.default_rng(seed)
    gate = DayGate(refit, n_components)
    chosen = np.linspace(len(days) // 4, len(days) - 2, tried).astype(int).tolist()
    poisoned = []
    for number, (day, events) in enumerate(days.items()):
        if number in chosen:
            around = gate.surroundings(other[number * 7 % len(other)])
            for name, poison in POISONS.items():
                reasons = gate.judge(day, poison(events, around, rng))
                poisoned.append({"scenario": name, "day": str(day), "reasons": reasons})
        gate.take(day, events)
        progress(str(day), (number + 1) / len(days))
    kept_out = [{"day": str(day), "reasons": reasons} for day, reasons in gate.kept_out.items()]
    return {"log": log, "n_days": len(days), "kept_out": kept_out, "poisoned": poisoned}


def tables_day_gate(result: dict[str, Any]) -> list[Table]:
    """A row per scenario, and a row per normal day that was kept out."""
    scenarios = []
    for name in POISONS:
        tries = [one["reasons"] for one in result["poisoned"] if one["scenario"] == name]
        kept_out = [reasons for reasons in tries if reasons]
        by_model = sum(
            len(reasons) == 1 and reasons[0].startswith("the model") for reasons in tries
        )
        scenarios.append(
            {
                "scenario": name,
                "kept out": f"{len(kept_out)} of {len(tries)}",
                "by the model alone": by_model,
                "first reason": kept_out[0][0] if kept_out else "–",
            }
        )
    normal = [
        {"day": one["day"], "reasons": "; ".join(one["reasons"])} for one in result["kept_out"]
    ]
    title = f"Normal days of {result['log']} kept out: {len(normal)} of {result['n_days']}"
    return [
        Table(f"Poisoned days of {result['log']}", scenarios),
        Table(title, normal or [{"day": "none", "reasons": "–"}]),
    ]


def read_log(folder: Path, log: str) -> dict[date, Events]:
    """Return the events of every day (UTC) of a published log, in the order of time."""
    name, select = _LOGS[log]
    with duckdb.connect() as connection:
        columns = connection.execute(select, {"path": str(folder / name)}).fetchnumpy()
    events = Events(*(np.asarray(columns[key]) for key in ("users", "items", "times")))
    numbers = events.times // 86_400
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return {
        date.fromordinal(date(1970, 1, 1).toordinal() + int(numbers[part[0]])): events.take(part)
        for part in np.split(np.arange(len(events)), cuts)
    }


def _other_log(folder: Path, log: str) -> str:
    """Return another log that is there, or the same."""
    there = (name for name, (file, _) in _LOGS.items() if (folder / file).exists())
    return next((name for name in there if name != log), log)


@dataclass
class DayGate:
    """The two judges of a day, on a warehouse in memory.

    refit: days from one fit to the next.  kept_out: the days that were kept out, with reasons.
    """

    refit: int = 1
    n_components: int = 100
    kept_out: dict[date, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute(load_sql("warehouse/schema.sql"))
        self._figures: dict[date, DayFigures] = {}
        self._lifts: dict[date, Lift] = {}
        self._users: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._pairs: list[Array] = []
        self._model: FittedModel | None = None
        self._model_age = 0

    def surroundings(self, other_shop: Events) -> Surroundings:
        """Return what is known so far, in the order of the ids' numbers."""
        users, items = (
            np.array(sorted(ids, key=lambda text: (len(text), text)))
            for ids in (self._users, self._items)
        )
        return Surroundings(users, items, other_shop)

    def judge(self, day: date, events: Events) -> list[str]:
        """Return what speaks against a day; nothing of it is kept."""
        with self._delivered(day, events):
            figures = day_figures(self._connection, day)
        return self._reasons(figures, self._lift(events))

    def take(self, day: date, events: Events) -> None:
        """Judge a day, and take it in or keep it out."""
        self._insert(day, events)
        figures, today = day_figures(self._connection, day), self._lift(events)
        reasons = self._reasons(figures, today)
        self._figures[day] = figures
        if reasons:
            self.kept_out[day] = reasons
            self._connection.execute("INSERT INTO held_days VALUES ($1, 'rows', '')", [day])
            return
        if today is not None:
            self._lifts[day] = today
        self._pairs.append(self._positions(events, self._users, self._items))
        self._fit()

    def _reasons(self, figures: DayFigures, today: Lift | None) -> list[str]:
        since = usual_since([(day, day in self.kept_out) for day in self._figures]) or date.min
        recent = {day: f for day, f in self._figures.items() if day >= since}
        admitted = [f for day, f in recent.items() if day not in self.kept_out]
        held = [f for day, f in recent.items() if day in self.kept_out]
        lifts = [past for day, past in self._lifts.items() if day >= since]
        by_model = lift_objection(today, lifts)
        return objections(figures, admitted, held) + ([by_model] if by_model else [])

    @contextmanager
    def _delivered(self, day: date, events: Events) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            self._insert(day, events)
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _insert(self, day: date, events: Events) -> None:
        values = {
            "users": events.users.tolist(),
            "items": events.items.tolist(),
            "seconds": events.times.tolist(),
        }
        self._connection.execute(_INSERT, {"day": str(day), **values})

    def _positions(self, events: Events, users: dict[str, int], items: dict[str, int]) -> Array:
        """Return rows and columns of the events, (2, n); new ids are added to the dictionaries."""
        rows = [users.setdefault(text, len(users)) for text in events.users.tolist()]
        columns = [items.setdefault(text, len(items)) for text in events.items.tolist()]
        return np.array([rows, columns])

    def _matrix(self, pairs: Array, shape: tuple[int, int]) -> Csr:
        X = sparse.csr_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=shape)
        X.sum_duplicates()
        return X

    def _history(self) -> Csr:
        """Return the matrix of the days taken in, without the items of few users."""
        pairs = np.concatenate(self._pairs, axis=1)
        X = self._matrix(pairs, (len(self._users), len(self._items)))
        rare = np.bincount(X.indices, minlength=X.shape[1]) < MatrixSettings().min_item_users
        X.data[rare[X.indices]] = 0
        X.eliminate_zeros()
        return X

    def _fit(self) -> None:
        """Fit the model anew when it is old enough and there is enough to fit."""
        self._model_age += 1
        if not self.refit or (self._model is not None and self._model_age < self.refit):
            return
        X = self._history()
        rank = min(int(np.count_nonzero(np.diff(X.indptr))), len(np.unique(X.indices)))
        try:
            fit = MethodOfMoments(min(self.n_components, rank), ranking="components").fit(X)
        except MomError:
            return
        self._model, self._model_age = fit.fitted, 0

    def _lift(self, events: Events) -> Lift | None:
        if self._model is None:
            return None
        users, items = dict(self._users), dict(self._items)
        pairs = self._positions(events, users, items)
        train = UsersInMemory(self._history())
        return lift(self._model, train, self._matrix(pairs, (len(users), len(items))))
