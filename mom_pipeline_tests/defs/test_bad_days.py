"""Days as they come: out of order, malformed, thin, removed, kept out. With the sensor on."""

import gzip
import os
from datetime import date

import dagster as dg
import pytest

from mom_pipeline.defs.freshness import freshness
from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.admission import accept_day, drop_day, held_days
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline.serving.registry import ModelRegistry

from .conftest import N_DAYS, SERVED, Pipeline, day, lines_of
from .test_automation import asked_days, look

ARRAYS = (
    "interaction_matrix",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
)
LISTS = "SELECT * EXCLUDE (model) FROM recommendations ORDER BY ALL"
ROWS = "SELECT * FROM admitted_logs ORDER BY ALL"


def settle(pipeline: Pipeline, cursor: str | None = None) -> tuple[str | None, int]:
    """Run what the sensor asks for until it asks for nothing; the cursor, and how many ticks."""
    for ticks in range(1, 20):
        tick = look(pipeline, cursor)
        cursor = tick.cursor or cursor
        if not tick.run_requests:
            return cursor, ticks
        for first, last in asked_days(tick):
            pipeline.run_days(first, last, only=SERVED)
    raise AssertionError("the sensor never comes to rest")


def versions(pipeline: Pipeline) -> dict[tuple[str, date], str | None]:
    store = pipeline.state.artifacts
    return {(asset, d): store.version(asset, d) for asset in ARRAYS for d in store.days(asset)}


def status(pipeline: Pipeline, number: int) -> tuple[str, str]:
    entries = freshness(pipeline.warehouse, pipeline.state)
    (entry,) = [entry for entry in entries if entry.day == day(number)]
    return entry.status, entry.reason


def days_of_check(pipeline: Pipeline, name: str) -> dict[str, str]:
    """How a check of raw_logs ended on each day, in the newest run of it."""
    key = dg.AssetCheckKey(dg.AssetKey("raw_logs"), name)
    infos = pipeline.instance.event_log_storage.get_asset_check_partition_info([key])
    return {info.partition_key: info.latest_execution_status.value for info in infos}


def test_days_out_of_order_corrected_and_malformed_end_as_one_backfill(
    empty: Pipeline, backfilled: Pipeline, log_files
):
    names = sorted(log_files)
    cut_short = gzip.decompress(log_files[names[1]])[:-40]
    deliveries = [
        {names[3]: log_files[names[3]]},
        {names[0]: log_files[names[0]], names[1]: gzip.compress(cut_short, mtime=0)},
        {names[4]: log_files[names[3]], "2024-03-02-late.csv": b"no header\n"},
        {names[2]: log_files[names[2]], names[4]: log_files[names[4]]},
        {names[1]: log_files[names[1]]},
    ]
    cursor = None
    for files in deliveries:
        empty.deliver(files)
        cursor, _ = settle(empty, cursor)
    os.remove(empty.settings.logs_dir / "2024-03-02-late.csv")
    settle(empty, cursor)
    assert versions(empty) == versions(backfilled)
    assert empty.query(ROWS) == backfilled.query(ROWS)
    assert empty.query(LISTS) == backfilled.query(LISTS)


def test_a_malformed_file_costs_its_own_day(empty: Pipeline, log_files):
    names = sorted(log_files)
    empty.deliver({**log_files, names[1]: b"not,a,log\n"})
    cursor, ticks = settle(empty)
    assert ticks == 2
    state, reason = status(empty, 2)
    assert state == "refused"
    assert "2024-03-02.csv.gz is damaged" in reason
    ended = days_of_check(empty, "files_taken")
    assert [d for d, status in ended.items() if status != "SUCCEEDED"] == [str(day(2))]
    assert [status(empty, n)[0] for n in (1, 3, 4, 5)] == ["fresh"] * 4
    assert ModelRegistry(empty.settings.models_dir).champion_version().startswith("2024-03-05")
    assert not look(empty, cursor).run_requests

    empty.deliver({names[1]: log_files[names[1]]})
    assert asked_days(look(empty, cursor)) == [(str(day(2)), str(day(N_DAYS)))]
    settle(empty, cursor)
    assert status(empty, 2) == ("fresh", "")


def test_a_replaced_file_that_is_malformed_leaves_what_was_delivered(copied: Pipeline, log_files):
    before, rows = versions(copied), copied.query(ROWS)
    copied.deliver({sorted(log_files)[2]: b"not,a,log\n"})
    settle(copied)
    assert status(copied, 3)[0] == "refused"
    assert copied.query(ROWS) == rows
    assert versions(copied) == before


def test_thin_first_days_are_days(empty: Pipeline, log_files):
    names = sorted(log_files)
    thin = {names[n]: lines_of(day(n + 1), f"user-0000{n}") for n in range(2)}
    thin = {name.replace(".gz", ""): content for name, content in thin.items()}
    empty.deliver({**thin, **{name: log_files[name] for name in names[2:]}})
    settle(empty)
    for number in (1, 2):
        state, reason = status(empty, number)
        assert state == "fresh"
        assert reason.startswith("too little yet: of ")
        assert empty.metadata("decomposition", number)["note"].startswith("too little yet")
    assert status(empty, 3) == ("fresh", "")
    assert empty.mode(3).startswith("full")
    assert empty.mode(4) == "incremental"
    assert ModelRegistry(empty.settings.models_dir).champion_version()


def test_only_thin_days_give_no_model_and_no_failure(empty: Pipeline):
    empty.deliver({"2024-03-01.csv": lines_of(day(1), "user-1")})
    settle(empty)
    assert status(empty, 1)[0] == "fresh"
    assert ModelRegistry(empty.settings.models_dir).champion_version() is None
    assert empty.query(LISTS) == []


def test_a_removed_file_is_reported_and_dropped_by_hand(copied: Pipeline, log_files):
    rows = copied.query(ROWS)
    os.remove(copied.settings.logs_dir / sorted(log_files)[3])
    settle(copied)
    state, reason = status(copied, 4)
    assert state == "removed"
    assert "no longer in the folder" in reason
    assert "drop 2024-03-04" in reason
    assert copied.query(ROWS) == rows

    assert drop_day(copied.warehouse, day(4)) > 0
    settle(copied)
    of_day = "SELECT count(*) FROM raw_logs WHERE delivery_day = '2024-03-04'"
    assert copied.query(of_day) == [(0,)]
    assert status(copied, 5) == ("fresh", "")


def test_a_file_that_is_removed_before_its_day_is_computed_is_reported(empty: Pipeline, log_files):
    empty.deliver(dict(sorted(log_files.items())[:2]))
    ingest_day(empty.warehouse, day(2))
    os.remove(empty.settings.logs_dir / sorted(log_files)[1])
    assert status(empty, 2)[0] == "missing"
    settle(empty)
    assert status(empty, 2)[0] == "removed"


def test_a_removed_file_is_reported_after_its_arrays_expired(copied: Pipeline, log_files):
    copied.configure("retention_days = 0", "retention_days = 4")
    copied.deliver({f"{day(N_DAYS + 1)}.csv.gz": log_files[sorted(log_files)[-1]]})
    copied.run(N_DAYS + 1)
    assert status(copied, 2)[0] == "expired"
    os.remove(copied.settings.logs_dir / sorted(log_files)[1])
    assert status(copied, 2)[0] == "removed"


def test_a_dropped_file_is_not_taken_again_until_it_is_accepted(copied: Pipeline, log_files):
    before = versions(copied)
    drop_day(copied.warehouse, day(4))
    settle(copied)
    state, reason = status(copied, 4)
    assert state == "refused"
    assert "accept 2024-03-04" in reason
    without = versions(copied)
    assert without != before
    assert "dropped" in accept_day(copied.warehouse, day(4))
    settle(copied)
    assert versions(copied) == before


def test_a_dropped_day_whose_file_is_gone_cannot_be_accepted(copied: Pipeline, log_files):
    drop_day(copied.warehouse, day(4))
    os.remove(copied.settings.logs_dir / sorted(log_files)[3])
    with pytest.raises(LogFileError, match="no longer in the logs folder: 2024-03-04"):
        accept_day(copied.warehouse, day(4))
    copied.deliver({sorted(log_files)[3]: log_files[sorted(log_files)[3]]})
    assert "dropped" in accept_day(copied.warehouse, day(4))


def test_a_day_that_is_kept_out_is_as_if_it_had_not_come(
    empty: Pipeline, copied: Pipeline, log_files
):
    """Whatever keeps a day out: the days after it are computed without its rows."""
    names, first_day = sorted(log_files), 3
    with copied.warehouse.connect() as connection:
        connection.execute(
            "INSERT INTO accepted_days SELECT $day::DATE, 'another file', now()",
            {"day": str(day(first_day))},
        )
        connection.execute(
            "INSERT INTO held_days VALUES ($day::DATE, 'person', 'it looks odd')",
            {"day": str(day(first_day))},
        )
    settle(copied)
    assert status(copied, first_day)[0] == "kept out"
    empty.deliver({name: log_files[name] for name in names if name != names[first_day - 1]})
    settle(empty)
    days = [day(n) for n in range(1, N_DAYS + 1) if n != first_day]
    for d in days:
        ours, theirs = (p.state.matrix(d)[0] for p in (copied, empty))
        assert (ours != theirs).nnz == 0
        assert ours.shape == theirs.shape
    assert copied.query(ROWS) == empty.query(ROWS)

    assert "it looks odd" in accept_day(copied.warehouse, day(first_day))
    settle(copied)
    with copied.warehouse.reading() as connection:
        assert held_days(connection) == {}
    assert status(copied, first_day) == ("fresh", "")
