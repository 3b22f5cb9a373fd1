from datetime import date, timedelta

import pytest

from mom_pipeline.logs.admission import usual_since

FIRST = date(2024, 3, 1)


def days(marks: str) -> list[tuple[date, bool]]:
    """One day per character; x: kept out."""
    return [(FIRST + timedelta(days=n), mark == "x") for n, mark in enumerate(marks)]


@pytest.mark.parametrize(
    ("marks", "day"),
    [
        ("", None),
        ("....", None),
        ("..xx..xx..", None),
        (".xxx", 5),
        (".xxxx..", 6),
        ("xxx.xxx.", 8),
    ],
)
def test_what_is_usual_starts_anew_after_a_change_that_lasts(marks, day):
    assert usual_since(days(marks)) == (day and FIRST + timedelta(days=day - 1))
