"""Figures of a day: exact on small logs, and a function of the rows of the day and before it."""

import json
import math
from datetime import date

import pytest

from mom_pipeline.logs.day_figures import DayFigures, day_figures
from mom_pipeline_tests.data_folder import HEADER, DataFolder

SECOND = date(2024, 3, 2)
FIRST_DAY = "ann,tea,2024-03-01T08:00\nann,milk,2024-03-01T08:00\nbob,tea,2024-03-01T23:10\n"
SECOND_DAY = (
    "ann,tea,2024-03-02T08:00\nann,tea,2024-03-02T08:00\nann,rice,2024-03-02T09:00\n"
    "eve,milk,2024-03-02T09:30\n,milk,2024-03-02T09:30\n"
)


def figures(folder: DataFolder, day: date = SECOND) -> DayFigures:
    with folder.warehouse.reading() as connection:
        return day_figures(connection, day)


@pytest.fixture
def two_days(lenient: DataFolder) -> DataFolder:
    lenient.take(HEADER + FIRST_DAY, "2024-03-01.csv")
    lenient.take(HEADER + SECOND_DAY, "2024-03-02.csv")
    return lenient


def test_figures_of_a_small_day_are_exact(two_days: DataFolder) -> None:
    found = figures(two_days)
    assert (found.days_before, found.rows, found.different_rows) == (1, 4, 3)
    assert (found.users, found.known_users, found.lately_users, found.most_rows) == (2, 1, 1, 3)
    assert (found.lines, found.rejected) == (5, 1)
    assert found.hours == (0,) * 8 + (1, 2) + (0,) * 14
    assert found.log_rows_per_user == pytest.approx((math.log(3) + math.log(1)) / 2)
    # Of ann's two items nobody had rice; eve's milk is known, but not from her.
    assert found.new_items == pytest.approx((1 / 2 + 0) / 2)
    assert found.taken_again == pytest.approx(1 / 2)
    # Tea has two and milk one of three rows, by the rule of half a row more.
    assert found.log_item_share == pytest.approx((math.log(2.5 / 4) + math.log(1.5 / 4)) / 2)


def test_figures_are_stored_as_json(two_days: DataFolder) -> None:
    found = figures(two_days)
    assert DayFigures.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_a_day_before_that_is_kept_out_is_not_known(two_days: DataFolder) -> None:
    two_days.query("INSERT INTO held_days VALUES ('2024-03-01', 'rows', 'half of it is missing')")
    found = figures(two_days)
    assert (found.days_before, found.rows, found.known_users, found.new_items) == (0, 4, 0, 1)


def test_its_own_verdict_does_not_change_the_figures_of_a_day(two_days: DataFolder) -> None:
    before = figures(two_days)
    two_days.query("INSERT INTO held_days VALUES ('2024-03-02', 'rows', 'ids are shifted')")
    assert figures(two_days) == before


def test_figures_do_not_depend_on_the_order_of_arrival(
    two_days: DataFolder, new_folder: "type[DataFolder]"
) -> None:
    other = new_folder("other").with_logs(max_reject_share=1.0)
    for name, lines in (
        ("2024-03-03.csv", "bob,tea,2024-03-03T10:00\n"),
        ("2024-03-02.csv", SECOND_DAY),
        ("2024-03-01.csv", FIRST_DAY),
    ):
        other.take(HEADER + lines, name)
    assert figures(other) == figures(two_days)


def test_a_day_without_rows_has_figures(two_days: DataFolder) -> None:
    found = figures(two_days, date(2024, 3, 5))
    assert (found.rows, found.users, found.days_before) == (0, 0, 2)
    assert figures(two_days, date(2024, 2, 1)).days_before == 0


def test_weeks_without_any_file_do_not_make_users_unknown(two_days: DataFolder) -> None:
    two_days.take(HEADER + "bob,tea,2025-03-02T10:00\n", "2025-03-02.csv")
    found = figures(two_days, date(2025, 3, 2))
    assert (found.known_users, found.lately_users, found.taken_again) == (1, 1, 1)
