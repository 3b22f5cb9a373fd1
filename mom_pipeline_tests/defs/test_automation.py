"""The sensor and the schedules, through Dagster's own evaluation functions."""

import hashlib
import os
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from mom_pipeline.definitions import defs
from mom_pipeline.defs import automation
from mom_pipeline.defs.automation import FULL_CONFIG, MAX_ATTEMPTS
from mom_pipeline.defs.freshness import freshness
from mom_pipeline.defs.partitions import daily_partitions
from mom_pipeline.defs.run_tags import RANGE_END, RANGE_START
from mom_pipeline.logs.admission import drop_day
from mom_pipeline.settings import load_settings

from .conftest import N_DAYS, Pipeline, day, lines_of

ENDED = {"MOM_PIPELINE__END_DATE": "2024-03-06"}
REPOSITORY = defs.get_repository_def()


def look(pipeline: Pipeline, cursor: str | None = None):
    """One tick of the sensor."""
    with dg.build_sensor_context(
        instance=pipeline.instance,
        cursor=cursor,
        resources=pipeline.resources,
        repository_def=REPOSITORY,
    ) as context:
        return defs.get_sensor_def("log_file_sensor").evaluate_tick(context)


def scheduled(pipeline: Pipeline, name: str, day_of_march: int):
    """One tick of a schedule, at night."""
    with dg.build_schedule_context(
        instance=pipeline.instance,
        scheduled_execution_time=datetime(2024, 3, day_of_march, 5, tzinfo=UTC),
        resources=pipeline.resources,
        repository_def=REPOSITORY,
    ) as context:
        return defs.get_schedule_def(name).evaluate_tick(context)


def asked_days(tick) -> list[tuple[str, str]]:
    return [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in tick.run_requests]


def test_new_files_are_asked_for_until_they_are_computed(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:2]))
    first = look(empty)
    assert asked_days(first) == [("2024-03-01", "2024-03-02")]
    assert look(empty).run_requests[0].run_key == first.run_requests[0].run_key
    empty.run(1, 2)
    settled = look(empty, first.cursor)
    assert not settled.run_requests
    assert "no day is missing or stale" in settled.skip_message
    assert "nothing has changed" in look(empty, settled.cursor).skip_message


def test_the_next_day_today_and_a_correction_in_the_same_second(
    copied: Pipeline, log_files, monkeypatch
):
    names = sorted(log_files)
    today = datetime.now(tz=UTC).date()
    settled = look(copied)
    copied.deliver(
        {
            "2024-03-06.csv": lines_of(day(6), "user-00001", "user-00002"),
            f"{today}.csv": lines_of(today, "user-00001", "user-00003"),
            names[2]: log_files[names[3]],
        }
    )
    monkeypatch.setattr(automation, "DAILY", daily_partitions(load_settings(copied.root, ENDED)))
    assert f"{today} lies after the last day of these definitions" in look(copied).skip_message
    # As after a minute: definitions that were loaded with the new file there.
    monkeypatch.setattr(automation, "DAILY", daily_partitions(copied.settings))
    tick = look(copied, settled.cursor)
    assert asked_days(tick) == [(str(day(3)), str(day(6))), (str(today), str(today))]
    copied.run(3, 6)
    taken = {str(delivered) for (delivered,) in copied.query("SELECT delivery_day FROM raw_logs")}
    assert taken == {str(day(n)) for n in range(1, 7)}
    assert asked_days(look(copied, tick.cursor)) == [(str(today), str(today))]


def test_a_failed_run_is_asked_for_again_but_not_for_ever(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:1]))
    tick, keys = look(empty), []
    for _ in range(MAX_ATTEMPTS):
        keys.append(tick.run_requests[0].run_key)
        tick = look(empty, tick.cursor or "")
    assert len(set(keys)) == MAX_ATTEMPTS
    assert not tick.run_requests
    assert "3 times and failed" in tick.skip_message
    empty.deliver(dict(sorted(log_files.items())[1:2]))
    assert asked_days(look(empty, tick.cursor)) == [("2024-03-01", "2024-03-02")]


def test_nothing_is_asked_for_while_a_run_is_under_way(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:1]))
    first = look(empty)
    run = dg.DagsterRun(job_name="daily_update", status=dg.DagsterRunStatus.STARTED)
    empty.instance.add_run(run)
    assert "under way" in look(empty, first.cursor).skip_message
    empty.instance.report_run_failed(run)
    assert look(empty, first.cursor).run_requests


def test_a_file_of_a_day_that_has_not_come_waits_for_it(copied: Pipeline):
    copied.configure("[matrix]", "[pipeline]\nend_date = '2024-03-05'\n[matrix]")
    settled = look(copied)
    copied.deliver({"2024-03-06.csv": lines_of(day(6), "user-00001")})
    waiting = look(copied, settled.cursor)
    assert not waiting.run_requests
    states = {str(e.day): e.status for e in freshness(copied.warehouse, copied.state)}
    assert states["2024-03-06"] == "waiting"
    copied.configure("2024-03-05", "2024-03-06")
    assert asked_days(look(copied, waiting.cursor)) == [("2024-03-06", "2024-03-06")]


def test_an_added_file_of_an_old_day_is_late(copied: Pipeline):
    copied.deliver({"2024-03-04-late.csv": lines_of(day(4), "user-00001")})
    assert asked_days(look(copied)) == [(str(day(4)), str(day(N_DAYS)))]


def test_the_same_bytes_again_ask_for_nothing(copied: Pipeline, log_files):
    quiet = look(copied)
    os.utime(copied.settings.logs_dir / sorted(log_files)[2])
    tick = look(copied, quiet.cursor)
    assert not tick.run_requests
    assert tick.cursor != quiet.cursor


def test_a_dropped_day_is_asked_for_without_a_new_file(copied: Pipeline):
    settled = look(copied)
    drop_day(copied.warehouse, day(4))
    assert asked_days(look(copied, settled.cursor)) == [(str(day(4)), str(day(N_DAYS)))]


def test_a_checksum_that_confirms_a_refused_file_is_noticed(empty: Pipeline):
    content = lines_of(day(1), "user-1").rstrip(b"\n")
    empty.deliver({"2024-03-01.csv": content})
    tick = look(empty)
    empty.run(1, 1)
    settled = look(empty, tick.cursor)
    assert "no day is missing or stale" in settled.skip_message
    empty.deliver({"2024-03-01.csv.sha256": hashlib.sha256(content).hexdigest().encode()})
    assert asked_days(look(empty, settled.cursor)) == [("2024-03-01", "2024-03-01")]


def test_other_settings_are_noticed(copied: Pipeline):
    settled = look(copied)
    copied.configure("n_components = 3", "n_components = 2")
    assert asked_days(look(copied, settled.cursor)) == [(str(day(1)), str(day(N_DAYS)))]


def test_a_correction_of_the_same_size_and_time_is_noticed(copied: Pipeline, log_files):
    copied.deliver({"2024-03-05-late.csv": lines_of(day(5), "user-00001")})
    copied.run(5, 5)
    settled = look(copied)
    path = copied.settings.logs_dir / "2024-03-05-late.csv"
    before = path.stat()
    path.write_bytes(lines_of(day(5), "user-00002"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert asked_days(look(copied, settled.cursor)) == [(str(day(5)), str(day(5)))]


def test_a_cursor_of_an_earlier_version_is_no_obstacle(copied: Pipeline):
    assert "no day is missing or stale" in look(copied, '{"2024-03-01.csv": [1, 2]}').skip_message


def test_the_nightly_schedule_takes_all_that_is_behind(copied: Pipeline, log_files):
    def tick():
        return scheduled(copied, "daily_update_schedule", 5)

    assert "no day is missing or stale" in tick().skip_message
    copied.deliver({"2024-03-06.csv": lines_of(day(6), "user-00001")})
    assert asked_days(tick()) == [("2024-03-06", "2024-03-06")]


def test_the_weekly_schedule_takes_the_newest_day_with_logs(copied: Pipeline, empty: Pipeline):
    def tick(pipeline: Pipeline):
        return scheduled(pipeline, "weekly_rebuild_schedule", 10)

    assert [r.partition_key for r in tick(copied).run_requests] == [str(day(N_DAYS))]
    assert "no log file" in tick(empty).skip_message
    (request,) = tick(copied).run_requests
    assert request.run_config == FULL_CONFIG
    from_the_page = defs.resolve_job_def("full_rebuild").partitioned_config
    assert from_the_page.get_run_config_for_partition_key(str(day(1))) == FULL_CONFIG


@pytest.mark.parametrize(
    ("environment", "ends"),
    [
        ({}, ("2000-01-01", str(day(N_DAYS)))),
        ({"MOM_PIPELINE__START_DATE": "2024-03-01"}, ("2024-03-01", str(day(N_DAYS)))),
        ({"MOM_PIPELINE__END_DATE": "2024-03-10"}, ("2000-01-01", "2024-03-10")),
    ],
)
def test_the_days_are_those_of_the_settings_and_end_with_the_logs(backfilled, environment, ends):
    days = daily_partitions(load_settings(backfilled.root, environment))
    assert (days.get_first_partition_key(), days.get_last_partition_key()) == ends


@pytest.mark.parametrize("age", [None, 0, 60])
def test_the_days_of_logs_that_go_on_end_today(empty: Pipeline, age: int | None):
    today = datetime.now(tz=UTC).date()
    if age is not None:
        newest = today - timedelta(days=age)
        empty.deliver({f"{newest}.csv": lines_of(newest, "user-00001")})
    assert daily_partitions(empty.settings).end is None


def test_a_day_whose_file_is_gone_is_still_one(copied: Pipeline):
    (copied.settings.logs_dir / f"{day(N_DAYS)}.csv.gz").unlink()
    assert daily_partitions(copied.settings).get_last_partition_key() == str(day(N_DAYS))
