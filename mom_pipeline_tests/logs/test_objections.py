"""Objections to a day: what is said, and what is usual enough to say nothing."""

import math
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest

from mom_pipeline.logs.day_figures import DayFigures
from mom_pipeline.logs.objections import objections

FIRST = date(2024, 1, 1)  # a Monday
N_DAYS = 40


def a_day(number: int, users: int, rng: np.random.Generator, **changes: object) -> DayFigures:
    """Figures of a usual day with so many users, four rows each."""
    rows = 4 * users
    usual = DayFigures(
        day=FIRST + timedelta(days=number),
        days_before=number,
        rows=rows,
        different_rows=rows - rows // 50,
        users=users,
        known_users=round(0.7 * users),
        lately_users=round(0.4 * users),
        most_rows=30,
        lines=rows,
        rejected=0,
        log_rows_per_user=math.log(3) + rng.normal(0, 0.02),
        new_items=0.02,
        taken_again=0.3 + rng.normal(0, 0.02),
        log_item_share=-8 + rng.normal(0, 0.03),
        hours=tuple(round(users / 10) if 8 <= hour < 22 else 0 for hour in range(24)),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def recent(rng: np.random.Generator) -> list[DayFigures]:
    return [a_day(number, int(rng.poisson(200)), rng) for number in range(N_DAYS)]


def today(rng: np.random.Generator, users: int = 200, **changes: object) -> DayFigures:
    return a_day(N_DAYS, users, rng, **changes)


def test_usual_days_pass(rng: np.random.Generator, recent: list[DayFigures]) -> None:
    for users in (160, 180, 200, 220, 300):
        assert objections(today(rng, users), recent) == []


def test_half_of_the_users_is_said_with_the_numbers(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    (sentence,) = [s for s in objections(today(rng, 100), recent) if "users;" in s]
    low, high = min(day.users for day in recent), max(day.users for day in recent)
    assert sentence.startswith("100 users; about ")
    assert f"on this Saturday, the {N_DAYS} days before had {low} to {high}" in sentence
    assert sentence.endswith("part of the file may be missing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"log_rows_per_user": math.log(1.5)}, "rows per user"),
        ({"most_rows": 780}, "of the rows by one user"),
        ({"different_rows": 80}, "repeated line by line"),
        ({"rejected": 400}, "of the lines rejected"),
        ({"known_users": 0, "lately_users": 0}, "of the users new"),
        ({"lately_users": 5}, "seen in the week before"),
        ({"new_items": 0.9}, "of a user's items new"),
        ({"taken_again": 0.02}, "taken before by the same user"),
        ({"log_item_share": -9.0}, "of a million rows"),
        ({"hours": (0,) * 8 + (20,) * 7 + (0,) * 9}, "hardly any user from 15:00 to 24:00"),
    ],
)
def test_every_figure_can_object(
    rng: np.random.Generator, recent: list[DayFigures], changes: dict[str, object], said: str
) -> None:
    assert any(said in sentence for sentence in objections(today(rng, **changes), recent))


def test_a_small_log_is_judged_leniently(rng: np.random.Generator) -> None:
    """A third of the users and of the repeats is nothing special with a handful of them."""
    few = [a_day(number, 9 + number % 5, rng) for number in range(N_DAYS)]
    assert objections(today(rng, 6, most_rows=10, taken_again=0.15), few) == []


def test_a_quiet_weekday_is_usual_and_a_busy_one_cut_in_half_is_not(
    rng: np.random.Generator,
) -> None:
    """Saturdays have twice the users: half of one is what other days have."""
    recent = [a_day(n, 400 if n % 7 == 5 else 200, rng) for n in range(N_DAYS)]
    assert objections(today(rng, 400), recent) == []
    assert any(s.startswith("200 users") for s in objections(today(rng, 200), recent))


def test_growth_is_usual_and_half_of_the_grown_day_is_not(rng: np.random.Generator) -> None:
    recent = [a_day(n, round(100 * 1.1 ** max(0, n - 20)), rng) for n in range(N_DAYS)]
    grown = round(100 * 1.1 ** (N_DAYS - 20))
    assert objections(today(rng, grown), recent) == []
    assert any("users;" in sentence for sentence in objections(today(rng, grown // 2), recent))


def test_a_level_that_has_changed_for_good_becomes_usual(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    """What was kept out still tells the volume, so that nobody has to take in every day."""
    admitted, kept_out = list(recent), []
    for number in range(N_DAYS, N_DAYS + 21):
        day = a_day(number, 90, rng)
        held = bool(objections(day, admitted, kept_out))
        (kept_out if held else admitted).append(day)
    assert kept_out[0].day == FIRST + timedelta(days=N_DAYS)
    assert admitted[-1].users == 90


def test_poison_that_lasts_is_kept_out_all_the_time(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    kept_out: list[DayFigures] = []
    for number in range(N_DAYS, N_DAYS + 21):
        day = a_day(number, 200, rng, taken_again=0.01, log_item_share=-9.5)
        assert objections(day, recent, kept_out)
        kept_out.append(day)


def test_days_of_the_first_week_are_objected_to_only_when_absurd(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    first = recent[:4]
    assert objections(today(rng, 60, taken_again=0.0, log_item_share=-12), first) == []
    assert objections(today(rng, 30), []) == []
    (repeated,) = objections(today(rng, different_rows=80), [])
    assert "90.0% of the rows repeated" in repeated
    assert any(sentence.startswith("2 users") for sentence in objections(today(rng, 2), first))
    assert any("12,000 rows" in sentence for sentence in objections(today(rng, 3000), first))


def test_a_day_without_rows_is_not_objected_to(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    assert objections(today(rng, rows=0, users=0), recent) == []
