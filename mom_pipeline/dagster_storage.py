"""Dagster's history in SQLite: the files are Dagster's own, written with fewer connections.

Dagster makes an engine of SQLAlchemy for every transaction, which compiles each statement anew,
and stores the events of many days one by one, in three transactions each. Here one engine is kept
for each file, and a batch of events (see `dagster_home`) takes one transaction in the file of
the run and one in the index. So do the verdicts of a step's checks, a hundred of them in four
weeks, which wait for the event after them. A transaction is as durable as before: a process that
is killed leaves a batch whole or not at all.

A run that is made inside a command has no code location for Dagster, whose pages then show it
beside their jobs and not among the runs of any. Here it belongs to that of this project.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from dagster import DagsterRun
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.events import DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.event_log.sqlite.sqlite_event_log import (
    INDEX_SHARD_NAME,
    SqliteEventLogStorage,
)
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.sql import create_engine
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._core.storage.tags import CODE_LOCATION_TAG
from dagster._serdes import ConfigurableClassData
from dagster_shared.record import copy
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from mom_pipeline.dagster_home import CODE_LOCATION

_BATCHED = {DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_MATERIALIZATION_PLANNED}


def _engine(conn_string: str) -> Engine:
    """An engine that opens a connection for each transaction, and waits for other processes."""
    wait = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
    return create_engine(conn_string, poolclass=NullPool, connect_args=wait)


def _origin(job_name: str) -> RemoteJobOrigin:
    """Where the pages look for a job of this project."""
    location = RegisteredCodeLocationOrigin(CODE_LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME), job_name)


class EventLog(SqliteEventLogStorage):
    """The events of each run in a file of its own; those of assets in an index besides."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._open: dict[str, Connection] = {}
        self._lock = threading.RLock()
        self._verdicts: dict[str, list[EventLogEntry]] = {}
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard in self._open:  # inside of a transaction of this thread, as a part of it
                yield self._open[shard]
                return
            if shard not in self._engines:
                self._engines[shard] = _engine(self.conn_string_for_shard(shard))
            engine = self._engines[shard]
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.begin() as connection:
                self._open[shard] = connection
                try:
                    yield connection
                finally:
                    del self._open[shard]

    def store_event(self, event: EventLogEntry) -> None:
        """Store an event of a run after the verdicts before it; a verdict waits for the next."""
        if event.run_id and event.dagster_event_type is DagsterEventType.ASSET_CHECK_EVALUATION:
            self._verdicts.setdefault(event.run_id, []).append(event)
            return
        self._store_verdicts(event.run_id)
        super().store_event(event)

    def _store_verdicts(self, run_id: str) -> None:
        if events := self._verdicts.pop(run_id, []):
            with self._connect(run_id), self._connect(INDEX_SHARD_NAME):
                for event in events:
                    super().store_event(event)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of one run: those of assets together, all others as they come."""
        self._store_verdicts(events[0].run_id)
        together = [event for event in events if event.dagster_event_type in _BATCHED]
        if together:
            self._store_asset_events(together)
        for event in events:
            if event.dagster_event_type not in _BATCHED:
                self.store_event(event)

    def _store_asset_events(self, events: Sequence[EventLogEntry]) -> None:
        inserts = [self.prepare_insert_event(event) for event in events]
        with self.run_connection(events[0].run_id) as connection:
            for insert in inserts:
                connection.execute(insert)
        with self.index_transaction() as connection:
            ids = [connection.execute(insert).lastrowid for insert in inserts]
            self._store_asset_event_tags(connection, events, ids)
            # One row for each asset tells of its newest event.
            newest = {
                (event.dagster_event_type, event.get_dagster_event().asset_key): (event, event_id)
                for event, event_id in zip(events, ids, strict=True)
            }
            for event, event_id in newest.values():
                self._store_asset_event(connection, event, event_id)

    def remove_log(self, run_id: str) -> None:
        """Remove the file of a run. The index keeps what it made, and the verdicts on it."""
        with self._lock:
            if engine := self._engines.pop(run_id, None):
                engine.dispose()
            self._initialized_dbs.discard(run_id)
            for ending in ("", "-wal", "-shm"):
                Path(f"{self.path_for_shard(run_id)}{ending}").unlink(missing_ok=True)


class RunStorage(SqliteRunStorage):
    """The runs and their tags."""

    def add_run(self, dagster_run: DagsterRun) -> DagsterRun:
        """Store a run; one without a code location gets that of this project."""
        if dagster_run.remote_job_origin is None:
            dagster_run = copy(
                dagster_run,
                remote_job_origin=_origin(dagster_run.job_name),
                tags={**dagster_run.tags, CODE_LOCATION_TAG: CODE_LOCATION},
            )
        return super().add_run(dagster_run)

    @cached_property
    def _engine(self) -> Engine:
        return _engine(self._conn_string)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection


class Storage(DagsterSqliteStorage):
    """What `dagster.yaml` names."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._run_storage = RunStorage(self._run_storage._conn_string)
        self._event_log_storage = EventLog(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "Storage":
        return cls.from_local(inst_data=inst_data, **config_value)
