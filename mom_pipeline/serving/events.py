"""Events and what was shown, as the shop tells them: durable before they are acknowledged.

    shop/events.sqlite        of days that are kept as long as arrays are
    logs/DAY-service.jsonl    the events of a closed day, which `update` takes like any log

SQLite rather than lines in a file: ids are counted once and a user's events found by its indexes,
by any number of processes, after a crash as before.
"""

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.core.files import locked, replacing, sha256_of, write_text
from mom_pipeline.errors import DataFolderBusy, MomError
from mom_pipeline.settings import LogSettings, Settings

if TYPE_CHECKING:
    from mom_pipeline.warehouse.erased import ErasedUsers

# How long after it was shown an item counts as taken because of that.
SECONDS_TO_FOLLOW = 86_400
# Types where the logs have no column of types: what counts in a history, and what does not.
_TYPES = {"purchase": 1.0, "click": 0.0}
_WAIT_SECONDS, _LOOK_EVERY_SECONDS, _RETRY_SECONDS = 30.0, 0.5, 10.0
_EXCEL_DAY_0 = datetime(1899, 12, 30, tzinfo=UTC)
_FOLLOWED = """
INSERT OR IGNORE INTO followed
SELECT max(id), :type FROM shown
WHERE user = :user AND item = :item AND time BETWEEN :time - :seconds AND :time
HAVING max(id) IS NOT NULL
"""
_SINCE = "SELECT item, type FROM events, days WHERE user = ? AND (day > ? OR day > logged)"

_CLOSE = """
UPDATE days SET closed = max(closed, ifnull((SELECT max(day) FROM events WHERE day < ?), ''))
"""
_CLOSED = """
SELECT DISTINCT day FROM events, days WHERE day > logged AND day <= closed ORDER BY day
"""
_REMOVE_OLDEST = (
    "DELETE FROM events WHERE day < ? AND day <= (SELECT logged FROM days)",
    "DELETE FROM shown WHERE day < ?",
)
_OF_USERS = "FROM {} WHERE user IN (SELECT value FROM json_each(?))"
_TABLES_OF_USERS = ("events", "shown")


class EventsNotStored(MomError):
    """What was told could not be written; nothing of it counts."""


@dataclass(frozen=True)
class ShopEvent:
    """Somebody took an item. time: seconds since 1970."""

    user: str
    item: str
    time: float
    type: str
    id: str


@dataclass(frozen=True)
class ShownList:
    """A list that somebody was shown, from a place on."""

    user: str
    items: Sequence[str]
    version: str
    trial: str = ""
    place: int = 1


@dataclass(frozen=True)
class EventsCounted:
    """What is on the disk. known: ids that were counted before.  erased: of erased people."""

    accepted: int
    known: int
    erased: int


def event_weights(settings: Settings) -> dict[str, float]:
    """The types of events, and how much one counts in a history."""
    logs = settings.logs
    return dict(logs.event_weights) if logs.columns.event else _TYPES


class EventStore:
    """The database of a data folder, made when something is told first."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = settings.shop_dir / "events.sqlite"
        self._weights = event_weights(settings)
        self._local = threading.local()

    def connection(self) -> sqlite3.Connection:
        """The connection of this thread."""
        if not hasattr(self._local, "connection"):
            self.settings.shop_dir.mkdir(parents=True, exist_ok=True)
            made = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            with locked(self.settings.shop_dir):
                for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                    made.execute(f"PRAGMA {setting}")
                made.executescript((files("mom_pipeline.serving") / "events.sql").read_text())
            self._local.connection = made
        connection: sqlite3.Connection = self._local.connection
        return connection

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none where nothing was ever told."""
        if not self.path.exists():
            return []
        return self.connection().execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction; on the disk when the block has ended, or nothing of it."""
        connection = self.connection()
        # SQLite alone would poll for its lock.
        with locked(self.settings.shop_dir):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def since(self, user: str, day: str) -> dict[str, float]:
        """What a user took that a model of a day does not know: item -> weight."""
        taken: dict[str, float] = {}
        for item, kind in self.rows(_SINCE, user, day):
            if weight := self._weights.get(kind, 0.0):
                taken[item] = taken.get(item, 0.0) + weight
        return taken

    def add(self, connection: sqlite3.Connection, events: Sequence[ShopEvent]) -> EventsCounted:
        """Count events in a transaction, each id once."""
        day, erased, added = self._open_day(connection), self._erased_users(), list[ShopEvent]()
        let = [event for event in events if not (erased.hashes and event.user in erased)]
        for event in let:
            values = event.id, day, event.time, event.user, event.item, event.type
            insert = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?)"
            if connection.execute(insert, values).rowcount:
                added.append(event)
        named = [{**vars(event), "seconds": SECONDS_TO_FOLLOW} for event in added]
        connection.executemany(_FOLLOWED, named)
        return EventsCounted(len(added), len(let) - len(added), len(events) - len(let))

    def add_shown(self, connection: sqlite3.Connection, shown: ShownList) -> EventsCounted:
        """Keep a list that somebody was shown."""
        erased = self._erased_users()
        if erased.hashes and shown.user in erased:
            return EventsCounted(0, 0, len(shown.items))
        day, now = self._open_day(connection), time.time()
        rows = (
            (day, now, shown.user, item, place, shown.version, shown.trial)
            for place, item in enumerate(shown.items, start=shown.place)
        )
        connection.executemany("INSERT INTO shown VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", rows)
        return EventsCounted(len(shown.items), 0, 0)

    def _open_day(self, connection: sqlite3.Connection) -> str:
        """Today, or the day after the last closed one where the clock was set back."""
        [[closed]] = connection.execute("SELECT closed FROM days").fetchall()
        after = date.fromisoformat(closed) + timedelta(days=1) if closed else date.min
        return max(datetime.now(self.settings.logs.zone).date(), after).isoformat()

    def _erased_users(self) -> "ErasedUsers":
        """Everyone whose erasure was begun; the warehouse, which may be busy, is not asked."""
        from mom_pipeline.warehouse.erased import SALT, read_erased  # loads DuckDB

        folder = self.settings.erasures_dir
        states = [path.stat() for path in (folder, folder / SALT) if path.exists()]
        return read_erased(folder, tuple((state.st_mtime_ns, state.st_size) for state in states))

    def close_days(self) -> list[Path]:
        """Write the log files of days that are over, each whole, holding the lock of the folder."""
        if not self.path.exists():
            return []
        today = datetime.now(self.settings.logs.zone).date().isoformat()
        with self.writing() as connection:
            connection.execute(_CLOSE, (today,))
        written = [self._write_log(day) for (day,) in self.rows(_CLOSED)]
        with self.writing() as connection:
            connection.execute("UPDATE days SET logged = closed")
            if kept := self.settings.artifacts.retention_days:
                first = date.fromisoformat(today) - timedelta(days=kept)
                for oldest in _REMOVE_OLDEST:
                    connection.execute(oldest, (first.isoformat(),))
        return [path for path in written if path]

    def _write_log(self, day: str) -> Path | None:
        """Write the events of a day that count, in the columns and times of the settings."""
        logs, columns = self.settings.logs, self.settings.logs.columns
        path, empty = self.settings.logs_dir / f"{day}-service.jsonl", True
        events = "SELECT user, item, time, type FROM events WHERE day = ? ORDER BY rowid"
        with replacing(path) as temporary:
            with temporary.open("w", encoding="ascii") as log:
                for user, item, seconds, kind in self.connection().execute(events, (day,)):
                    if columns.event or self._weights.get(kind):
                        at = _as_logged(seconds, logs)
                        line = {columns.user: user, columns.item: item, columns.timestamp: at}
                        line |= {columns.event: kind} if columns.event else {}
                        line |= {columns.weight: "1"} if columns.weight else {}
                        log.write(json.dumps(line) + "\n")
                        empty = False
            if not empty and logs.require_checksum:
                write_text(path.with_name(f"{path.name}.sha256"), sha256_of(temporary) + "\n")
        if empty:
            path.unlink()
        return None if empty else path

    def mentioned(self, users: Collection[str]) -> tuple[dict[str, int], set[str]]:
        """Rows by table of some users, and those of them who have any."""
        rows, there = dict[str, int](), set[str]()
        for table in _TABLES_OF_USERS:
            of_users = f"SELECT user, count(*) {_OF_USERS.format(table)} GROUP BY user"
            counts = dict(self.rows(of_users, json.dumps(list(users))))
            rows[table] = sum(counts.values())
            there |= counts.keys()
        return rows, there

    def erase(self, users: Collection[str]) -> dict[str, int]:
        """Remove users, so that their bytes leave the files too. Returns the rows by table."""
        rows = self.mentioned(users)[0]
        if self.path.exists():
            with self.writing() as connection:
                for table in _TABLES_OF_USERS:
                    remove = f"DELETE {_OF_USERS.format(table)}"
                    connection.execute(remove, (json.dumps(list(users)),))
            with locked(self.settings.shop_dir):
                self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return rows


def _as_logged(seconds: float, logs: LogSettings) -> str:
    """A time as the log files of the settings have it."""
    at, form = datetime.fromtimestamp(seconds, logs.zone), logs.timestamp_format
    if per_second := {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000}.get(form):
        return str(int(seconds * per_second))
    if form == "excel":
        return str((at.replace(tzinfo=UTC) - _EXCEL_DAY_0) / timedelta(days=1))
    return at.isoformat(timespec="milliseconds") if form == "iso" else at.strftime(form)


Job = Callable[[sqlite3.Connection], EventsCounted]


class EventWriter:
    """The thread of a process that writes: what waits is one transaction. It also closes days."""

    def __init__(self, store: EventStore, told: Callable[[str], None] = lambda message: None):
        self.store = store
        self._told = told
        self._waiting: queue.SimpleQueue[tuple[Job, Future[EventsCounted]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._look_at = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def submit(self, job: Job) -> Future[EventsCounted]:
        """Have a job done; its result comes when it is on the disk, or EventsNotStored."""
        done: Future[EventsCounted] = Future()
        self._waiting.put((job, done))
        return done

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch = []
            try:
                batch = [self._waiting.get(timeout=_LOOK_EVERY_SECONDS)]
                while True:
                    batch.append(self._waiting.get_nowait())
            except queue.Empty:
                pass
            going_on = None not in batch
            self._write([entry for entry in batch if entry is not None])
            self._close_days()

    def _write(self, batch: Sequence[tuple[Job, Future[EventsCounted]]]) -> None:
        try:
            if batch:
                with self.store.writing() as connection:
                    results = [job(connection) for job, _ in batch]
                for (_, done), result in zip(batch, results, strict=True):
                    done.set_result(result)
        except (OSError, sqlite3.Error, MomError) as error:
            for _, done in batch:
                done.set_exception(EventsNotStored(f"nothing was stored: {error}; send it again"))

    def _close_days(self) -> None:
        """Write the logs of days that are over, unless somebody writes to the folder."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _RETRY_SECONDS
        over = "SELECT 1 FROM events, days WHERE day > logged AND day < ? LIMIT 1"
        today = datetime.now(self.store.settings.logs.zone).date().isoformat()
        try:
            if self.store.rows(over, today):
                with writing_to(self.store.settings, "mom-pipeline serve"):
                    for path in self.store.close_days():
                        self._told(f"{path.name} has the events of its day.")
        except DataFolderBusy:
            return
        except (OSError, sqlite3.Error, MomError) as error:
            self._told(f"the log of a day could not be written: {error}")
