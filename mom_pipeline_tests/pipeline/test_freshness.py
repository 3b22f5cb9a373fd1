"""The one function that says how a day stands, over a ledger and the list of files."""

from datetime import date, timedelta

import pytest

from mom_pipeline.pipeline.days import INPUTS, LOGS, TOO_LITTLE, Days
from mom_pipeline.pipeline.freshness import DayStatus, day_statuses, days_behind, stretches
from mom_pipeline.settings import PipelineSettings
from mom_pipeline.warehouse.materializations import begin_run, end_run
from mom_pipeline.warehouse.matrix import logs_fingerprints
from mom_pipeline_tests.data_folder import HEADER, DataFolder

FIRST = date(2024, 3, 1)


def day(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


def line(number: int, user: str = "u") -> str:
    return f"{HEADER}{user},i,{day(number)}T10:00:00\n"


def compute(folder: DataFolder) -> None:
    """Write the rows of the ledger that a run of all days would."""
    days = Days(folder.settings)
    wanted = [day(n) for n in (1, 2, 3)]
    with folder.warehouse.reading() as connection:
        prints = logs_fingerprints(connection, wanted)
    for one in wanted:
        for asset in INPUTS:
            inputs = {LOGS: prints[one]} if asset == "interaction_matrix" else {}
            days.publish(asset, one, version="1", inputs=inputs, facts={"mode": "incremental"})


@pytest.fixture
def computed(folder: DataFolder) -> DataFolder:
    """Three days, delivered and computed."""
    for number in (1, 2, 3):
        folder.take(line(number), f"{day(number)}.csv")
    compute(folder)
    return folder


def entries(folder: DataFolder) -> list[DayStatus]:
    return day_statuses(Days(folder.settings))


def states(folder: DataFolder) -> list[str]:
    return [entry.status for entry in entries(folder)]


def behind(folder: DataFolder) -> list[int]:
    return [(entry.day - FIRST).days + 1 for entry in days_behind(entries(folder))]


def test_nothing_new_is_fresh_and_a_new_file_is_missing(computed: DataFolder):
    assert states(computed) == ["fresh"] * 3
    assert behind(computed) == []
    computed.write(f"{day(4)}.csv", line(4))
    assert states(computed) == ["fresh"] * 3 + ["missing"]
    assert behind(computed) == [4]


def test_a_folder_without_a_warehouse(folder: DataFolder):
    assert entries(folder) == []
    folder.write(f"{day(1)}.csv", line(1))
    assert states(folder) == ["missing"]


@pytest.mark.parametrize("ingested", [False, True])
def test_late_rows_make_their_day_and_all_later_ones_stale(computed: DataFolder, ingested: bool):
    name = f"{day(2)}-late.csv"
    computed.write(name, line(2, "late"))
    if ingested:
        computed.ingest(name)
    assert states(computed) == ["fresh", "stale", "stale"]
    assert behind(computed) == [2, 3]


def test_days_between_two_that_are_behind_are_computed_again(computed: DataFolder):
    for number in (1, 3):
        computed.query(
            f"DELETE FROM materializations WHERE asset = 'report' AND day = '{day(number)}'"
        )
    assert states(computed) == ["missing", "fresh", "missing"]
    assert behind(computed) == [1, 2, 3]


def test_a_run_without_an_end_or_with_a_failure(computed: DataFolder):
    computed.query(f"DELETE FROM materializations WHERE asset = 'report' AND day = '{day(3)}'")
    with computed.warehouse.connect() as connection:
        begin_run(connection, "killed", day(1), day(3))
    assert states(computed) == ["fresh", "fresh", "failed"]
    assert "killed" in entries(computed)[2].reason
    with computed.warehouse.connect() as connection:
        end_run(connection, "killed", "report failed: no room")
    assert entries(computed)[2].reason == "report failed: no room"
    with computed.warehouse.connect() as connection:
        begin_run(connection, "another", day(3), day(3))
        end_run(connection, "another", "")
    assert states(computed)[2] == "missing"


def test_a_check_that_failed_an_excluded_day_and_too_little(computed: DataFolder):
    computed.query(
        f"UPDATE materializations SET sound = false WHERE asset = 'decomposition' "
        f"AND day = '{day(1)}'"
    )
    Days(computed.settings).publish(
        "decomposition", day(2), version="1", facts={TOO_LITTLE: "one user"}, sound=False
    )
    found = entries(computed)
    assert [(e.status, e.reason) for e in found[:2]] == [
        ("failed", "decomposition did not pass its checks"),
        ("fresh", "one user"),
    ]
    computed.query(f"INSERT INTO excluded_days VALUES ('{day(3)}', 'half of the rows')")
    compute(computed)
    entry = entries(computed)[2]
    assert (entry.status, entry.behind, entry.noteworthy) == ("excluded", False, True)
    assert "half of the rows" in entry.reason


def test_days_outside_of_the_pipeline_wait(computed: DataFolder):
    computed.write(f"{day(4)}.csv", line(4))
    ends = PipelineSettings(start_date=str(day(2)), end_date=str(day(3)))
    computed.settings = computed.settings.model_copy(update={"pipeline": ends})
    assert states(computed) == ["excluded", "fresh", "fresh", "excluded"]
    assert behind(computed) == []


def test_a_removed_file_is_said(computed: DataFolder):
    (computed.settings.logs_dir / f"{day(2)}.csv").unlink()
    entry = entries(computed)[1]
    assert (entry.status, entry.noteworthy) == ("fresh", True)
    assert "drop" in entry.reason


def test_long_gaps_and_long_ranges_are_runs_of_their_own():
    numbers = [1, 2, 31, 80, *range(81, 120)]
    missing = [DayStatus(day(n), 1, "–", "missing", behind=True) for n in numbers]
    found = [((a - FIRST).days + 1, (b - FIRST).days + 1) for a, b in stretches(missing)]
    assert found == [(1, 2), (31, 31), (80, 107), (108, 119)]
