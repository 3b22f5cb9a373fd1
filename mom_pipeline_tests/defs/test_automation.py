"""The sensor and the schedules, through Dagster's own evaluation functions."""

import os
from datetime import UTC, date, datetime

import dagster as dg
import pytest

from mom_pipeline.definitions import defs
from mom_pipeline.defs.automation import FULL_CONFIG, RANGE_END, RANGE_START, touched_range
from mom_pipeline.defs.partitions import daily_partitions
from mom_pipeline.settings import load_settings

from .conftest import N_DAYS, Pipeline, day

REPOSITORY = defs.get_repository_def()


def look(pipeline: Pipeline, cursor: str | None = None):
    """One tick of the sensor."""
    context = dg.build_sensor_context(
        instance=pipeline.instance,
        cursor=cursor,
        resources=pipeline.resources,
        repository_def=REPOSITORY,
    )
    return defs.get_sensor_def("log_file_sensor").evaluate_tick(context)


def asked_days(tick) -> list[tuple[str, str]]:
    return [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in tick.run_requests]


def test_new_files_are_asked_for_once(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:2]))
    first = look(empty)
    assert asked_days(first) == [("2024-03-01", "2024-03-02")]
    again = look(empty, first.cursor)
    assert not again.run_requests
    assert "no log file changed" in again.skip_message
    assert look(empty).run_requests[0].run_key == first.run_requests[0].run_key


def test_a_late_file_asks_for_exactly_the_days_that_it_touches(copied: Pipeline, log_files):
    quiet = look(copied)
    assert not quiet.run_requests
    late = copied.settings.logs_dir / sorted(log_files)[2]
    late.write_bytes(log_files[sorted(log_files)[3]])
    tick = look(copied, quiet.cursor)
    assert asked_days(tick) == [(str(day(3)), str(day(N_DAYS)))]


def test_an_added_file_of_an_old_day_is_late_too(copied: Pipeline):
    extra = copied.settings.logs_dir / "2024-03-04-late.csv"
    extra.write_text("user,item,timestamp\nuser-00001,jazz-001,2024-03-02T10:00:00\n")
    assert asked_days(look(copied)) == [(str(day(4)), str(day(N_DAYS)))]


def test_the_same_bytes_again_ask_for_nothing(copied: Pipeline, log_files):
    quiet = look(copied)
    os.utime(copied.settings.logs_dir / sorted(log_files)[2])
    tick = look(copied, quiet.cursor)
    assert not tick.run_requests
    assert tick.cursor != quiet.cursor


def test_the_run_that_the_sensor_asks_for_does_the_work(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:2]))
    (first, last) = asked_days(look(empty))[0]
    empty.run(date.fromisoformat(first).day, date.fromisoformat(last).day)
    assert not look(empty).run_requests


def test_a_window_ends_what_a_late_file_touches(tmp_path):
    open_ended = load_settings(tmp_path, {})
    windowed = load_settings(tmp_path, {"MOM_MATRIX__WINDOW_DAYS": "3"})
    late, newest = {day(2)}, date(2024, 3, 28)
    assert touched_range(late, newest, open_ended) == (day(2), newest)
    assert touched_range(late, newest, windowed) == (day(2), date(2024, 3, 11))


def test_the_daily_schedule_takes_the_last_day():
    schedule = defs.get_schedule_def("daily_update_schedule")
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2024, 3, 5, 3, tzinfo=UTC), repository_def=REPOSITORY
    )
    tick = schedule.evaluate_tick(context)
    assert [request.partition_key for request in tick.run_requests] == ["2024-03-04"]


def test_the_weekly_schedules_take_the_newest_day_with_logs(copied: Pipeline, empty: Pipeline):
    def tick(pipeline: Pipeline, name: str = "weekly_rebuild_schedule"):
        return defs.get_schedule_def(name).evaluate_tick(
            dg.build_schedule_context(
                instance=pipeline.instance,
                scheduled_execution_time=datetime(2024, 3, 10, 5, tzinfo=UTC),
                resources=pipeline.resources,
                repository_def=REPOSITORY,
            )
        )

    assert [r.partition_key for r in tick(copied).run_requests] == [str(day(N_DAYS))]
    assert "no log file" in tick(empty).skip_message
    comparing = "weekly_comparison_schedule"
    assert [r.partition_key for r in tick(copied, comparing).run_requests] == [str(day(N_DAYS))]
    assert "no log file" in tick(empty, comparing).skip_message
    assert defs.get_schedule_def(comparing).job_name == "comparison"
    (request,) = tick(copied).run_requests
    assert request.run_config == FULL_CONFIG
    from_the_page = defs.resolve_job_def("full_rebuild").partitioned_config
    assert from_the_page.get_run_config_for_partition_key(str(day(1))) == FULL_CONFIG


@pytest.mark.parametrize(
    ("today", "environment", "ends"),
    [
        ("2024-03-20", {}, ("2024-03-01", None)),
        ("2026-01-01", {}, ("2024-03-01", "2024-03-05")),
        ("2026-01-01", {"MOM_PIPELINE__END_DATE": "2024-03-10"}, ("2024-03-01", "2024-03-10")),
        ("2026-01-01", {"MOM_PIPELINE__START_DATE": "2024-02-01"}, ("2024-02-01", "2024-03-05")),
    ],
)
def test_the_days_follow_the_logs_and_the_settings(backfilled, today, environment, ends):
    settings = load_settings(backfilled.root, environment)
    days = daily_partitions(settings, date.fromisoformat(today))
    assert days.get_first_partition_key() == ends[0]
    if ends[1] is None:
        assert days.end is None
    else:
        assert days.get_last_partition_key() == ends[1]
