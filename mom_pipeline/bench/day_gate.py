"""Benches of bad days: what the gate excludes of them, and whose lists a pushed item enters."""

import re
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
from scipy import sparse

from mom_pipeline.comparison.run import Progress, no_progress
from mom_pipeline.core import MethodOfMoments
from mom_pipeline.core.ranking.score import weights_from
from mom_pipeline.core.types import Array, Csr
from mom_pipeline.logs.gate import DayVerdict, admit
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql
from mom_pipeline.warehouse.matrix import Kind, extend_dictionaries, ids_by_position, matrix_as_of

# Log -> its file, as published; `LOG.sql` gives users, items and times of all events.
_LOGS = {
    "30music": "30music.parquet",
    "movietweetings": "movietweetings/ratings.dat.gz",
    "online-retail": "online_retail.csv.gz",
}
_BY_LIFT = "users took what goes with"
_DAY_SECONDS = 86_400
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class Events:
    """Lines of a log in the order of time; times: seconds since 1970.  All (n,)."""

    users: Array
    items: Array
    times: Array

    def __len__(self) -> int:
        return len(self.users)

    def take(self, positions: Array) -> "Events":
        return Events(self.users[positions], self.items[positions], self.times[positions])


def read_log(folder: Path, log: str) -> dict[date, Events]:
    """Return the events of every day (UTC) of a published log, in the order of time."""
    path = str(folder / _LOGS[log])
    with duckdb.connect() as connection:
        columns = connection.execute(load_sql(f"bench/{log}.sql"), {"path": path}).fetchnumpy()
    events = Events(*(np.asarray(columns[key]) for key in ("users", "items", "times")))
    numbers = events.times // _DAY_SECONDS
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return {
        date.fromordinal(date(1970, 1, 1).toordinal() + int(numbers[part[0]])): events.take(part)
        for part in np.split(np.arange(len(events)), cuts)
    }


def poisoned(
    day: Events, users: Array, items: Array, other_shop: Events, rng: np.random.Generator
) -> dict[str, Events]:
    """Return versions of a day that a gate should exclude, by name.

    users, items: known before, in the order of their numbers.  other_shop: a day of another log.
    """
    n, midnight = len(day), day.times.min() // _DAY_SECONDS * _DAY_SECONDS
    of_day, rows = np.unique(day.users, return_counts=True)
    other = replace(other_shop, times=other_shop.times % _DAY_SECONDS + midnight)

    def random_events(per_user: int) -> Events:
        drawn = np.repeat(of_day, per_user)
        times = np.sort(rng.integers(midnight, midnight + _DAY_SECONDS, len(drawn)))
        return Events(rng.permutation(drawn), rng.choice(items, len(drawn)), times)

    def pushed(rows: int) -> Events:
        """One account more for every hundred, each with a new item and some known ones."""
        crowd = np.repeat([f"newcomer-{k}" for k in range(max(len(users) // 100, 1))], rows)
        taken = rng.choice(items, len(crowd)).astype(object)
        taken[::rows] = "a new item"
        times = rng.integers(midnight, midnight + _DAY_SECONDS, len(crowd))
        return Events(
            np.concatenate([day.users.astype(object), crowd]),
            np.concatenate([day.items.astype(object), taken]),
            np.concatenate([day.times, times]),
        )

    half_of_users = rng.permutation(of_day)[: len(of_day) // 2]
    return {
        "100 random events per user": random_events(100),
        "5 random events per user": random_events(5),
        "random items": replace(day, items=rng.choice(items, n)),
        "every line ten times": day.take(np.repeat(np.arange(n), 10)),
        "first half only": day.take(np.arange(n // 2)),
        "second half only": day.take(np.arange(n // 2, n)),
        "random half of the lines": day.take(np.sort(rng.permutation(n)[: n // 2])),
        "random half of the users": day.take(np.flatnonzero(np.isin(day.users, half_of_users))),
        "item ids plus one": replace(day, items=_plus_one(day.items)),
        "next item of the catalogue": replace(day, items=_next_known(day.items, items)),
        "items moved by a line": replace(day, items=np.roll(day.items, 1)),
        "user ids plus one": replace(day, users=_plus_one(day.users)),
        "next known user": replace(day, users=_next_known(day.users, users)),
        "all under one user": replace(day, users=np.full(n, day.users[0])),
        "one user's rows only": day.take(np.flatnonzero(day.users == of_day[rows.argmax()])),
        "a new item by newcomers": pushed(1),
        "a new item and three by newcomers": pushed(4),
        "another shop, other ids": replace(
            other, users=_of_another(other.users), items=_of_another(other.items)
        ),
        "another shop, same ids": replace(
            other, users=_renamed(other.users, users), items=_renamed(other.items, items)
        ),
    }


def _plus_one(ids: Array) -> Array:
    """Add one to the last number of every id; its width stays."""

    def next_id(text: str) -> str:
        return _LAST_NUMBER.sub(lambda m: str(int(m[0]) + 1).zfill(len(m[0])), text)

    return np.array([next_id(str(text)) for text in ids])


def _next_known(ids: Array, known: Array) -> Array:
    """Replace every id by the one that follows it among those known."""
    following = dict(zip(known.tolist(), np.roll(known, -1).tolist(), strict=True))
    return np.array([following.get(text, text) for text in ids.tolist()])


def _of_another(ids: Array) -> Array:
    return np.char.add("shop-", ids.astype(str))


def _renamed(ids: Array, known: Array) -> Array:
    """Replace every id by one that is known here, the same for the same."""
    return known[np.unique(ids, return_inverse=True)[1] * 7919 % len(known)]


class DayGate:
    """A warehouse of its own: days are delivered and admitted as in `interaction_matrix`."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse(load_settings(folder, {}))
        self._X: Csr | None = None

    def known_ids(self, kind: Kind) -> Array:
        """Return the ids of users or items so far, in the order of their numbers."""
        with self.warehouse.reading() as connection:
            ids = ids_by_position(connection, kind)
        return np.array(sorted(ids, key=lambda name: (len(name), name)))

    def try_day(self, day: date, events: Events) -> DayVerdict:
        """Return the verdict on a day; nothing of it is stored."""
        with self.warehouse.opened() as connection:
            connection.begin()
            try:
                return self._admit(connection, day, events)
            finally:
                connection.rollback()

    def deliver(self, day: date, events: Events) -> DayVerdict:
        """Ingest a day, and admit or exclude it."""
        with self.warehouse.opened():
            with self.warehouse.connect() as connection:
                verdict = self._admit(connection, day, events)
                extend_dictionaries(connection, day)
            self._X = matrix_as_of(self.warehouse, day).interactions
        return verdict

    def _admit(self, connection: Connection, day: date, events: Events) -> DayVerdict:
        of_day, columns = {"day": str(day)}, ("users", "items", "times")
        lists = {name: getattr(events, name).tolist() for name in columns}
        connection.execute(load_sql("bench/deliver_rows.sql"), {**of_day, **lists})
        connection.execute(load_sql("bench/deliver_file.sql"), {**of_day, "n": len(events)})
        return admit(connection, day, self._X)


def run_day_gate(
    folder: Path,
    log: str = "30music",
    *,
    tried: int = 12,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Admit the days of a log in order, and try poisoned versions of some of them before.

    Returns a row per normal day that was excluded, and a row per way to poison a day.
    """
    days, rng = read_log(folder, log), np.random.default_rng(0)
    there = (name for name, file in _LOGS.items() if (folder / file).exists())
    others = list(read_log(folder, next((name for name in there if name != log), log)).values())
    chosen = np.linspace(len(days) // 4, len(days) - 2, tried).astype(int).tolist()
    excluded, tries = list[dict[str, Any]](), dict[str, list[list[str]]]()
    with TemporaryDirectory() as scratch:
        gate = DayGate(Path(scratch))
        with gate.warehouse.opened():
            for number, (day, events) in enumerate(days.items()):
                if number in chosen:
                    users, items = gate.known_ids("user"), gate.known_ids("item")
                    other = others[number * 7 % len(others)]
                    for name, bad in poisoned(events, users, items, other, rng).items():
                        tries.setdefault(name, []).append(gate.try_day(day, bad).reasons)
                verdict = gate.deliver(day, events)
                if not verdict.admitted:
                    excluded.append({"day": str(day), "reasons": "; ".join(verdict.reasons)})
                progress(str(day), (number + 1) / len(days))
    poison = [{"scenario": name, **_told(reasons)} for name, reasons in tries.items()]
    figures = {"log": log, "normal_days": len(days), "of_them_excluded": len(excluded)}
    return {**figures, "excluded": excluded, "poisoned": poison}


def _told(tries: list[list[str]]) -> dict[str, Any]:
    """Return how often a way to poison was seen, and by what. tries: the reasons of each day."""
    seen = [reasons for reasons in tries if reasons]
    by_lift = [all(one.startswith(_BY_LIFT) for one in reasons) for reasons in seen]
    return {
        "excluded": len(seen),
        "of": len(tries),
        "by_cooccurrences_alone": sum(by_lift),
        "first_reason": seen[0][0] if seen else None,
    }


# Of all accounts those that push; people whose lists are looked at; days that "aged" ones go back.
_SHARE, _ASKED, _AGE, _N = 0.01, 2_000, 60, 20
_EVENTS = {"new": (1, 4, 20), "aged": (4, 20)}


def run_poison(
    folder: Path, log: str = "movietweetings", *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Put a new item into a log by accounts of some events; "aged" had their others before.

    The weights of the ranking are those of the log as it is; the gate of days has no say here.
    """
    days, rng = read_log(folder, log), np.random.default_rng(0)
    names = ([getattr(e, n).astype(str) for e in days.values()] for n in ("users", "items"))
    users, items = (np.unique(np.concatenate(n), return_inverse=True)[1] for n in names)
    dates = np.repeat([day.toordinal() for day in days], [len(e) for e in days.values()])
    (people, pushed), newest = (users.max() + 1, items.max() + 1), dates.max()
    asked, (X, last) = np.sort(rng.permutation(people)[:_ASKED]), _rows(users, items, dates)
    learnt = MethodOfMoments(8).fit(X, last_days=last).diagnostics["ranking_weights"]
    accounts, rows = max(round(_SHARE * people), 1), list[dict[str, Any]]()
    for kind, n in ((kind, n) for kind, several in _EVENTS.items() for n in several):
        progress(f"{kind}, {n} events", len(rows) / 5)
        crowd = np.repeat(people + np.arange(accounts), n)
        taken, ago = rng.choice(items, len(crowd)), rng.integers(1, _AGE, len(crowd))
        when = newest - ago * (kind == "aged")
        taken[::n], when[::n] = pushed, newest
        X, last = _rows(*map(np.concatenate, ((users, crowd), (items, taken), (dates, when))))
        model = MethodOfMoments(8, ranking_weights=weights_from(learnt)).fit(X, last_days=last)
        lists, _ = model.recommend(X[asked], _N, last_days=last[asked])
        share = float((lists == pushed).any(axis=1).mean())
        rows.append({"accounts": kind, "events": n, "share_of_people": share})
    return {"log": log, "pushing_accounts": accounts, "people_asked": len(asked), "rows": rows}


def _rows(users: Array, items: Array, days: Array) -> tuple[Csr, Csr]:
    """Return counts and the days of last events, (N, D) each, by the numbers of each event."""
    shape, order = (users.max() + 1, items.max() + 1), np.argsort(-days, kind="stable")
    X = sparse.csr_array((np.ones(len(users)), (users, items)), shape=shape)
    _, first = np.unique(users[order] * np.int64(shape[1]) + items[order], return_index=True)
    at = order[first]
    return X, sparse.csr_array((days[at].astype(float), (users[at], items[at])), shape=shape)
