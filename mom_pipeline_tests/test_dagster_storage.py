"""Dagster's history: what is stored is what Dagster itself stores, in fewer transactions."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy.engine import Engine

from mom_pipeline.dagster_home import CODE_LOCATION, prepare_dagster_home
from mom_pipeline.dagster_storage import EventLog, RunStorage
from mom_pipeline.settings import load_settings

N_DAYS = 40
DAILY = dg.DailyPartitionsDefinition("2024-01-01")
LAST = DAILY.get_partition_keys()[N_DAYS - 1]


@dg.asset(
    partitions_def=DAILY,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[dg.AssetCheckSpec("sound", asset="numbers")],
)
def numbers(context: dg.AssetExecutionContext) -> Iterator[Any]:
    for key in context.partition_keys:
        context.add_asset_metadata({"day": key}, partition_key=key)
    yield dg.MaterializeResult()
    yield dg.Output(None, output_name="numbers_sound")
    for key in context.partition_keys:
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey("numbers"),
            check_name="sound",
            passed=key != LAST,
            metadata={},
            partition=key,
        )


def materialize_all(instance: dg.DagsterInstance) -> None:
    tags = {
        "dagster/asset_partition_range_start": "2024-01-01",
        "dagster/asset_partition_range_end": LAST,
    }
    assert dg.materialize([numbers], instance=instance, tags=tags).success


@contextmanager
def counted(name: str) -> Iterator[list[str]]:
    """Count an event of all engines of SQLAlchemy."""
    seen: list[str] = []

    def note(*arguments: object) -> None:
        seen.append(name)

    sqlalchemy_event.listen(Engine, name, note)
    try:
        yield seen
    finally:
        sqlalchemy_event.remove(Engine, name, note)


def rows_of(history: Path) -> list[object]:
    """The events of the index by kind, asset and day, and the newest of each asset."""
    with closing(sqlite3.connect(history / "runs" / "index.db")) as index:
        events = index.execute(
            "SELECT dagster_event_type, asset_key, partition FROM event_logs "
            "WHERE asset_key IS NOT NULL ORDER BY 1, 2, 3"
        ).fetchall()
        assets = index.execute(
            "SELECT asset_key, last_materialization IS NOT NULL FROM asset_keys"
        ).fetchall()
        tags = index.execute("SELECT key, count(*) FROM asset_event_tags GROUP BY key").fetchall()
        checks = index.execute(
            "SELECT check_name, execution_status, partition FROM asset_check_executions "
            "ORDER BY partition"
        ).fetchall()
    (run,) = [path for path in (history / "runs").glob("*.db") if path.stem != "index"]
    with closing(sqlite3.connect(run)) as own:
        kinds = own.execute(
            "SELECT dagster_event_type, count(*) FROM event_logs "
            "WHERE asset_key IS NOT NULL GROUP BY 1 ORDER BY 1"
        ).fetchall()
    return [events, assets, sorted(tags), checks, kinds]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DAGSTER_HOME", "DAGSTER_EVENT_BATCH_SIZE"):
        monkeypatch.setenv(name, "")  # given back at the end
    return prepare_dagster_home(load_settings(tmp_path / "data", {}))


def test_days_of_a_run_take_few_transactions_and_leave_what_dagster_stores(
    home: Path, tmp_path: Path
) -> None:
    with dg.DagsterInstance.get() as instance, counted("begin") as ours:
        materialize_all(instance)
        newest = instance.get_latest_materialization_event(dg.AssetKey("numbers"))
        assert newest is not None
        assert newest.asset_materialization is not None
        assert newest.asset_materialization.partition == LAST
        found = instance.get_materialized_partitions(dg.AssetKey("numbers"))
        assert len(found) == N_DAYS
    del os.environ["DAGSTER_EVENT_BATCH_SIZE"]
    (tmp_path / "plain").mkdir()
    with (
        dg.DagsterInstance.local_temp(str(tmp_path / "plain")) as instance,
        counted("begin") as plain,
    ):
        materialize_all(instance)
        (history,) = (tmp_path / "plain").rglob("history")
    assert rows_of(home / "history") == rows_of(history)
    assert len(plain) > 5 * N_DAYS
    assert len(ours) < len(plain) - 5 * N_DAYS


def test_a_run_of_a_command_belongs_to_the_code_location_of_the_pages(home: Path) -> None:
    with dg.DagsterInstance.get() as instance:
        materialize_all(instance)
        (run,) = instance.get_runs(dg.RunsFilter(tags={"dagster/code_location": CODE_LOCATION}))
        label = f"__repository__@{CODE_LOCATION}"
        assert instance.get_runs_count(dg.RunsFilter(tags={".dagster/repository": label})) == 1
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.location_name == CODE_LOCATION
    assert run.remote_job_origin.job_name == run.job_name


def test_verdicts_are_there_when_the_step_has_failed(home: Path) -> None:
    """They wait for the next event of their run, which a failure is too."""

    @dg.asset(check_specs=[dg.AssetCheckSpec("sound", asset="broken", blocking=True)])
    def broken() -> dg.MaterializeResult:
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False)])

    with dg.DagsterInstance.get() as instance:
        assert not dg.materialize([broken], instance=instance, raise_on_error=False).success
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as index:
        statuses = index.execute("SELECT execution_status FROM asset_check_executions").fetchall()
    assert statuses == [("FAILED",)]


def test_logs_of_runs_of_old_days_go_and_what_they_made_stays(home: Path) -> None:
    from mom_pipeline.defs.runs import remove_old_logs

    first_after = date.fromisoformat(LAST) + timedelta(days=1)
    with dg.DagsterInstance.get() as instance:
        materialize_all(instance)
        (run,) = instance.get_runs()
        log = home / "history" / "runs" / f"{run.run_id}.db"
        assert remove_old_logs(instance, date.fromisoformat(LAST)) == 0
        assert log.exists()
        assert remove_old_logs(instance, first_after) == 1
        assert not log.exists()
        assert len(instance.get_materialized_partitions(dg.AssetKey("numbers"))) == N_DAYS
        newest = instance.get_latest_materialization_event(dg.AssetKey("numbers"))
        assert newest is not None
        assert newest.asset_materialization is not None
        assert newest.asset_materialization.metadata["day"].value == LAST
        # Whoever opens the page of the run finds it without events.
        assert instance.get_run_by_id(run.run_id) == run
        assert instance.all_logs(run.run_id) == []
        materialize_all(instance)
        assert len(instance.get_runs()) == 2


def test_logs_of_runs_that_failed_stay(home: Path) -> None:
    from mom_pipeline.defs.runs import remove_old_logs

    @dg.asset(partitions_def=DAILY)
    def broken() -> None:
        raise ValueError("broken")

    with dg.DagsterInstance.get() as instance:
        dg.materialize([broken], instance=instance, partition_key=LAST, raise_on_error=False)
        assert remove_old_logs(instance, date.fromisoformat(LAST) + timedelta(days=1)) == 0
        (run,) = instance.get_runs()
        assert any(event.is_dagster_event for event in instance.all_logs(run.run_id))


def test_one_engine_serves_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    from mom_pipeline import dagster_storage

    make = dagster_storage._engine
    monkeypatch.setattr(dagster_storage, "_engine", lambda path: made.append(path) or make(path))
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.event_log_storage, EventLog)
        assert isinstance(instance.run_storage, RunStorage)
        materialize_all(instance)
    assert len(made) == len(set(made)) == 3  # runs, index, and the events of the run


def test_a_folder_that_was_moved_keeps_its_history(home: Path, tmp_path: Path) -> None:
    with dg.DagsterInstance.get() as instance:
        materialize_all(instance)
    (tmp_path / "data").rename(tmp_path / "moved")
    prepare_dagster_home(load_settings(tmp_path / "moved", {}))
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs_count() == 1
    assert not (tmp_path / "data").exists()
