"""The sensor and the schedules, through Dagster's own evaluation: they ask as `update` does."""

import os
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.defs.automation import MAX_ATTEMPTS, full_config
from mom_pipeline.defs.build import build_defs
from mom_pipeline.defs.daily import Names
from mom_pipeline.defs.partitions import RANGE_END, RANGE_START, daily_partitions
from mom_pipeline.logs.decisions import drop_day
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.materializations import begin_run, end_run

from .conftest import N_DAYS, Pipeline, day, lines_of, schedule_tick, sensor_tick


def look(pipeline: Pipeline) -> Any:
    """One tick of the sensor."""
    return sensor_tick(build_defs(pipeline.root), pipeline.instance)


def scheduled(pipeline: Pipeline, name: str) -> Any:
    """One tick of a schedule, at night."""
    return schedule_tick(build_defs(pipeline.root), pipeline.instance, name)


def asked_days(tick: Any) -> list[tuple[str, str]]:
    return [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in tick.run_requests]


def late_file(pipeline: Pipeline) -> None:
    pipeline.deliver({f"{day(4)}-late.csv": lines_of(day(4), "ben-00001")})


def same_size_and_time(pipeline: Pipeline) -> None:
    path = next(pipeline.settings.logs_dir.glob(f"{day(4)}*"))
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "nothing": (lambda pipeline: None, []),
    "the same bytes again": (lambda p: os.utime(next(p.settings.logs_dir.iterdir())), []),
    "a late file": (late_file, [(4, N_DAYS)]),
    "a correction of the same size and time": (same_size_and_time, [(4, N_DAYS)]),
    "a dropped day": (lambda p: drop_day(p.warehouse, day(4)), [(4, N_DAYS)]),
    "other settings": (
        lambda p: p.configure("n_components = 3", "n_components = 2"),
        [(1, N_DAYS)],
    ),
    "a new day": (
        lambda p: p.deliver({f"{day(6)}.csv": lines_of(day(6), "ben-00001")}),
        [(6, 6)],
    ),
    "a day that has not come": (
        lambda p: p.deliver({"2999-01-01.csv": lines_of(date(2999, 1, 1), "ben-00001")}),
        [],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_sensor_and_schedule_ask_for_the_days_of_update(copied: Pipeline, change: str):
    make, numbers = CHANGES[change]
    make(copied)
    expected = [(str(day(first)), str(day(last))) for first, last in numbers]
    tick = look(copied)
    assert copied.behind() == asked_days(tick) == expected
    assert asked_days(scheduled(copied, "daily_update_schedule")) == expected
    if expected:  # the same request until it is done
        assert look(copied).run_requests[0].run_key == tick.run_requests[0].run_key
    else:
        assert "no day is missing or stale" in tick.skip_message


def test_a_failing_run_is_asked_for_three_times_until_a_file_changes(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:1]))
    keys = []
    for attempt in range(MAX_ATTEMPTS):
        keys.append(look(empty).run_requests[0].run_key)
        with empty.warehouse.connect() as connection:
            begin_run(connection, f"run {attempt}", day(1), day(1))
            end_run(connection, f"run {attempt}", "raw_logs failed: it is odd")
    assert len(set(keys)) == MAX_ATTEMPTS
    assert empty.states() == ["failed"]
    assert f"failed {MAX_ATTEMPTS} times" in look(empty).skip_message
    empty.deliver(dict(sorted(log_files.items())[1:2]))
    assert asked_days(look(empty)) == [(str(day(1)), str(day(2)))]


def test_nothing_is_asked_for_while_somebody_writes_or_a_run_waits(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:1]))
    with writing_to(empty.settings, "erase"):
        assert "erase" in look(empty).skip_message
    run = dg.DagsterRun(job_name="daily_update", status=dg.DagsterRunStatus.NOT_STARTED)
    empty.instance.add_run(run)
    assert "a run waits" in look(empty).skip_message
    empty.instance.report_run_failed(run)
    assert look(empty).run_requests


def test_the_weekly_schedules_take_the_newest_day_with_logs(copied: Pipeline, empty: Pipeline):
    for name, config in (("rebuild", full_config(Names())), ("comparison", {})):
        (request,) = scheduled(copied, f"weekly_{name}_schedule").run_requests
        assert (request.partition_key, request.run_config) == (str(day(N_DAYS)), config)
    assert "no log file" in scheduled(empty, "weekly_rebuild_schedule").skip_message


@pytest.mark.parametrize(
    ("environment", "ends"),
    [
        ({}, (str(day(1)), str(day(N_DAYS)))),
        ({"MOM_PIPELINE__START_DATE": "2024-02-01"}, ("2024-02-01", str(day(N_DAYS)))),
        ({"MOM_PIPELINE__END_DATE": "2024-03-10"}, (str(day(1)), "2024-03-10")),
    ],
)
def test_the_days_are_those_of_the_logs_and_the_settings(backfilled, environment, ends):
    days = daily_partitions(load_settings(backfilled.root, environment))
    assert (days.get_first_partition_key(), days.get_last_partition_key()) == ends


@pytest.mark.parametrize("age", [None, 0, 59])
def test_the_days_of_logs_that_go_on_end_today(empty: Pipeline, age: int | None):
    """A new day needs no reload of the definitions."""
    today = datetime.now(tz=UTC).date()
    if age is not None:
        newest = today - timedelta(days=age)
        empty.deliver({f"{newest}.csv": lines_of(newest, "ben-00001")})
    assert daily_partitions(empty.settings).end is None
