"""What a person decides: accept, drop, and what becomes of it when files are delivered again."""

from datetime import date, timedelta

import pytest

from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.decisions import (
    accept_day,
    accept_usual,
    drop_day,
    refusals,
    undecided_days,
)
from mom_pipeline.logs.gate import DayVerdict, admit, admit_unjudged, excluded_days
from mom_pipeline.logs.ingest import ingest_day
from mom_pipeline_tests.data_folder import HEADER, DataFolder

DAY = date(2024, 3, 1)
NAME = "2024-03-01.csv"
REPEATED = HEADER + 200 * "ann,tea,2024-03-01T08:00\n"
USUAL = HEADER + "ann,tea,2024-03-01T08:00\nbob,milk,2024-03-01T09:00\n"


def verdict(folder: DataFolder) -> DayVerdict:
    with folder.warehouse.connect() as connection:
        return admit(connection, DAY, None)


def n_admitted(folder: DataFolder) -> int:
    return int(str(folder.query("SELECT count(*) FROM admitted_logs")[0][0]))


@pytest.fixture
def excluded(folder: DataFolder) -> DataFolder:
    folder.take(REPEATED, NAME)
    assert not verdict(folder).admitted
    assert n_admitted(folder) == 0
    return folder


def test_an_accepted_day_counts_and_does_not_read_as_usual(excluded: DataFolder) -> None:
    assert "of the rows repeated" in accept_day(excluded.warehouse, DAY)
    found = verdict(excluded)
    assert (found.admitted, found.accepted_by_person) == (True, True)
    assert "of the rows repeated" in found.reasons[0]
    assert n_admitted(excluded) == 200


def test_an_accepted_day_is_accepted_as_long_as_its_files_stay(excluded: DataFolder) -> None:
    accept_day(excluded.warehouse, DAY)
    excluded.take(REPEATED + "bob,milk,2024-03-01T09:00\n", NAME)
    found = verdict(excluded)
    assert (found.admitted, found.accepted_by_person) == (False, False)
    excluded.take(REPEATED, NAME)
    assert verdict(excluded).admitted


def test_a_corrected_file_is_admitted_by_itself(excluded: DataFolder) -> None:
    excluded.take(USUAL, NAME)
    assert verdict(excluded).reasons == []
    assert n_admitted(excluded) == 2


def test_a_dropped_day_leaves_nothing_and_is_not_ingested_again(excluded: DataFolder) -> None:
    assert drop_day(excluded.warehouse, DAY) == 200
    assert ingest_day(excluded.warehouse, DAY) == []
    for table in ("raw_logs", "ingest_ledger", "day_figures", "excluded_days"):
        assert excluded.query(f"SELECT count(*) FROM {table}") == [(0,)]
    found = verdict(excluded)
    assert (found.admitted, found.figures["rows"]) == (True, 0)


def test_a_dropped_day_that_is_delivered_anew_is_ingested_when_it_differs(
    excluded: DataFolder,
) -> None:
    drop_day(excluded.warehouse, DAY)
    excluded.write(NAME, REPEATED)
    assert ingest_day(excluded.warehouse, DAY) == []
    excluded.write(NAME, USUAL)
    assert len(ingest_day(excluded.warehouse, DAY)) == 1
    assert verdict(excluded).admitted
    assert n_admitted(excluded) == 2


def test_a_dropped_day_that_is_accepted_is_ingested_again(excluded: DataFolder) -> None:
    drop_day(excluded.warehouse, DAY)
    assert NAME in accept_day(excluded.warehouse, DAY)
    assert len(ingest_day(excluded.warehouse, DAY)) == 1
    with excluded.warehouse.reading() as connection:
        assert refusals(connection, DAY) == []
    assert verdict(excluded).accepted_by_person


def test_a_dropped_day_whose_file_is_gone_cannot_be_accepted(excluded: DataFolder) -> None:
    drop_day(excluded.warehouse, DAY)
    (excluded.settings.logs_dir / NAME).unlink()
    with pytest.raises(LogFileError, match=NAME):
        accept_day(excluded.warehouse, DAY)


def test_there_is_nothing_to_decide_of_a_usual_day_or_of_one_that_never_came(
    folder: DataFolder,
) -> None:
    folder.take(USUAL, NAME)
    verdict(folder)
    with pytest.raises(LogFileError, match=str(DAY)):
        accept_day(folder.warehouse, DAY)
    with pytest.raises(LogFileError, match="2024-03-05"):
        drop_day(folder.warehouse, date(2024, 3, 5))
    with folder.warehouse.reading() as connection:
        assert excluded_days(connection) == {}


def test_small_days_within_a_history_are_accepted(folder: DataFolder) -> None:
    """The last day may be cut short, and repeated lines are no matter of size."""
    days = [date(2024, 3, 1) + timedelta(days=n) for n in range(18)]
    small, repeated, last = days[12], days[15], days[-1]
    for n, day in enumerate(days):
        rows = 6 if day in (small, last) else 120
        times = [f"{day}T{8 + k % 12:02d}:00" for k in range(rows)]
        lines = [f"u{(k * 7 + n) % 200},i{k % 30},{time}\n" for k, time in enumerate(times)]
        folder.take(HEADER + "".join(5 * lines[:40] if day == repeated else lines), f"{day}.csv")
    with folder.warehouse.connect() as connection:
        for day in days:
            admit(connection, day, None)
        assert set(excluded_days(connection)) == {small, repeated, last}
        tables = ("day_figures", "excluded_days")
        alone = [connection.execute(f"FROM {table} ORDER BY day").fetchall() for table in tables]
        for table in tables:
            connection.execute(f"DELETE FROM {table}")
        admit_unjudged(connection, date.max)  # many at once: the figures of each alone
        assert alone == [connection.execute(f"FROM {t} ORDER BY day").fetchall() for t in tables]
    assert accept_usual(folder.warehouse) == [small]
    assert undecided_days(folder.warehouse, days[13], days[-1]) == [repeated, last]
    assert not undecided_days(folder.warehouse, days[0], days[14])
