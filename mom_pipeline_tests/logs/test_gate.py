"""The gate: what is said of a day, what is usual enough, and what people meet with whole days."""

import gzip
import math
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.day_gate import DayGate, Events
from mom_pipeline.core.evaluation.cooccurrence_lift import Lift
from mom_pipeline.logs.gate import DayFigures, admit, day_figures, excluded_days, objections
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline_tests.data_folder import HEADER, DataFolder

FIRST = date(2024, 1, 1)  # a Monday
N_DAYS = 40


def a_day(number: int, users: int, rng: np.random.Generator, **changes: object) -> DayFigures:
    """Figures of a usual day with so many users, four rows each."""
    usual = DayFigures(
        day=FIRST + timedelta(days=number),
        days_before=number,
        rows=4 * users,
        repeated_share=0.02,
        users=users,
        rows_per_user=3 * math.exp(rng.normal(0, 0.02)),
        top_user_share=min(8 / max(users, 1), 1.0),
        new_user_share=0.3,
        lately_share=0.57,
        new_item_share=0.02,
        taken_again_share=0.3 + rng.normal(0, 0.02),
        item_popularity=335 * math.exp(rng.normal(0, 0.03)),
        rejected_share=0.0,
        hours=tuple(round(users / 10) if 8 <= hour < 22 else 0 for hour in range(24)),
        history_lift=Lift(1.5 * math.exp(rng.normal(0, 0.05)), users, 0.05),
        half_lift=Lift(2.5 * math.exp(rng.normal(0, 0.05)), users // 2, 0.07),
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
    (sentence,) = [s for s in objections(today(rng, 100), recent) if " users;" in s]
    low, high = min(day.users for day in recent), max(day.users for day in recent)
    assert sentence.startswith("100 users; about ")
    assert f"on this Saturday, the {N_DAYS} days before had {low} to {high}" in sentence
    assert sentence.endswith("part of the file may be missing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows_per_user": 1.5}, "rows per user"),
        ({"top_user_share": 0.98}, "of the rows by one user"),
        ({"repeated_share": 0.9}, "of the rows repeated"),
        ({"rejected_share": 0.5}, "of the lines rejected"),
        ({"new_user_share": 1.0}, "of the users new"),
        ({"lately_share": 0.04}, "seen in the week before"),
        ({"new_item_share": 0.9}, "of a user's items new"),
        ({"taken_again_share": 0.02}, "taken before by the same user"),
        ({"item_popularity": 123}, "of a million rows"),
        ({"history_lift": Lift(1.15, 200, 0.05)}, "goes with their histories 1.15 times"),
        (
            {"history_lift": Lift(1.25, 200, 0.05), "half_lift": Lift(2.0, 100, 0.07)},
            "users may have been given the items of others",
        ),
        ({"hours": (0,) * 8 + (20,) * 7 + (0,) * 9}, "hardly any user from 15:00 to 24:00"),
    ],
)
def test_every_figure_can_object(
    rng: np.random.Generator, recent: list[DayFigures], changes: dict[str, object], said: str
) -> None:
    assert any(said in sentence for sentence in objections(today(rng, **changes), recent))


def test_a_small_log_is_compared_leniently(rng: np.random.Generator) -> None:
    """A third of the users and of the repeats is nothing special with a handful of them."""
    few = [a_day(number, 9 + number % 5, rng) for number in range(N_DAYS)]
    assert objections(today(rng, 6, top_user_share=0.4, taken_again_share=0.15), few) == []


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
    assert any(" users;" in sentence for sentence in objections(today(rng, grown // 2), recent))


def test_a_level_that_has_changed_for_good_becomes_usual(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    """What was excluded still tells the volume, so that nobody has to accept every day."""
    admitted, excluded = list(recent), []
    for number in range(N_DAYS, N_DAYS + 21):
        day = a_day(number, 90, rng)
        is_excluded = bool(objections(day, admitted, excluded))
        (excluded if is_excluded else admitted).append(day)
    assert excluded[0].day == FIRST + timedelta(days=N_DAYS)
    assert admitted[-1].users == 90


def test_poison_that_lasts_is_excluded_all_the_time(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    excluded: list[DayFigures] = []
    for number in range(N_DAYS, N_DAYS + 21):
        day = a_day(number, 200, rng, taken_again_share=0.01, item_popularity=75)
        assert objections(day, recent, excluded)
        excluded.append(day)


def test_days_of_the_first_week_are_objected_to_only_when_absurd(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    first = recent[:4]
    assert objections(today(rng, 60, taken_again_share=0.0, item_popularity=6), first) == []
    assert objections(today(rng, 30), []) == []
    assert objections(today(rng, rows=0, users=0), recent) == []
    (repeated,) = objections(today(rng, repeated_share=0.9), [])
    assert "90.0% of the rows repeated" in repeated
    assert any(sentence.startswith("2 users") for sentence in objections(today(rng, 2), first))
    assert any("12,000 rows" in sentence for sentence in objections(today(rng, 3000), first))


def test_few_users_or_days_say_nothing_of_the_lift(
    rng: np.random.Generator, recent: list[DayFigures]
) -> None:
    assert objections(today(rng, history_lift=Lift(0.9, 9, 0.05)), recent) == []
    unknown = [replace(day, history_lift=Lift(1.0, 0, 0.0)) for day in recent[:-6]]
    assert objections(today(rng, history_lift=Lift(0.9, 200, 0.05)), unknown + recent[-6:]) == []


SECOND = date(2024, 3, 2)
FIRST_DAY = "ann,tea,2024-03-01T08:00\nann,milk,2024-03-01T08:00\nbob,tea,2024-03-01T23:10\n"
SECOND_DAY = (
    "ann,tea,2024-03-02T08:00\nann,tea,2024-03-02T08:00\nann,rice,2024-03-02T09:00\n"
    "eve,milk,2024-03-02T09:30\n,milk,2024-03-02T09:30\n"
)


def figures(folder: DataFolder, day: date = SECOND) -> DayFigures:
    with folder.warehouse.reading() as connection:
        return day_figures(connection, [day])[0]


@pytest.fixture
def two_days(lenient: DataFolder) -> DataFolder:
    lenient.take(HEADER + FIRST_DAY, "2024-03-01.csv")
    lenient.take(HEADER + SECOND_DAY, "2024-03-02.csv")
    return lenient


def test_figures_of_a_small_day_are_exact(two_days: DataFolder) -> None:
    found = figures(two_days)
    assert (found.days_before, found.rows, found.repeated_share) == (1, 4, 0.25)
    assert (found.users, found.new_user_share, found.lately_share) == (2, 0.5, 1)
    assert (found.top_user_share, found.rejected_share) == (0.75, 0.2)
    assert found.hours == (0,) * 8 + (1, 2) + (0,) * 14
    assert found.rows_per_user == pytest.approx(math.sqrt(3 * 1))
    # Of ann's two items nobody had rice; eve's milk is known, but not from her.
    assert found.new_item_share == pytest.approx((1 / 2 + 0) / 2)
    assert found.taken_again_share == pytest.approx(1 / 2)
    # Tea has two and milk one of three rows, by the rule of half a row more.
    assert found.item_popularity == pytest.approx(1e6 * math.sqrt(2.5 / 4 * 1.5 / 4))


def test_figures_know_no_excluded_day_before_and_not_their_own_verdict(
    two_days: DataFolder,
) -> None:
    before = figures(two_days)
    assert DayFigures.from_json(before.as_json()) == before
    two_days.query("INSERT INTO excluded_days VALUES ('2024-03-02', 'ids are shifted')")
    assert figures(two_days) == before
    two_days.query("INSERT INTO excluded_days VALUES ('2024-03-01', 'half of it is missing')")
    found = figures(two_days)
    assert (found.days_before, found.rows) == (0, 4)
    assert (found.new_user_share, found.new_item_share) == (1, 1)


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


def test_a_day_without_rows_and_one_after_a_year_have_figures(two_days: DataFolder) -> None:
    found = figures(two_days, date(2024, 3, 5))
    assert (found.rows, found.users, found.days_before) == (0, 0, 2)
    assert figures(two_days, date(2024, 2, 1)).days_before == 0
    # Weeks without any file do not make users unknown.
    two_days.take(HEADER + "bob,tea,2025-03-02T10:00\n", "2025-03-02.csv")
    found = figures(two_days, date(2025, 3, 2))
    assert (found.new_user_share, found.lately_share, found.taken_again_share) == (0, 1, 1)


def sample_days(settings: SampleSettings) -> dict[date, Events]:
    """Return the good lines of the sample logs, as they are in the end."""
    days = {}
    for delivery in sample_deliveries(settings):
        lines = [line.split(",") for line in gzip.decompress(delivery.content).decode().split("\n")]
        good = [line for line in lines if len(line) == 3 and line[2].startswith("20")]
        users, items, texts = (np.array(column) for column in zip(*good, strict=True))
        times = np.array([int(datetime.fromisoformat(f"{t}+00:00").timestamp()) for t in texts])
        order = np.argsort(times, kind="stable")
        days[delivery.day] = Events(users[order], items[order], times[order])
    return dict(sorted(days.items()))


SAMPLE = SampleSettings(n_days=20, n_users=1200, n_items=200, n_components=6, events_per_day=1500)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[DayGate, date, Events]:
    """The gate after 19 of the sample's days, and the last day."""
    *before, (last, events) = sample_days(SAMPLE).items()
    gate = DayGate(tmp_path_factory.mktemp("sample"))
    for day, its_events in before:
        assert gate.deliver(day, its_events).admitted
    return gate, last, events


def added(day: Events, users: list[str], rng: np.random.Generator) -> Events:
    """The day with one more event, of some item and time of the day, for each of the users."""
    some = day.take(np.sort(rng.integers(len(day), size=len(users))))
    columns = ((day.users, users), (day.items, some.items), (day.times, some.times))
    return Events(*(np.concatenate(pair) for pair in columns))


def holiday(day: Events, rng: np.random.Generator) -> Events:
    """A sixth of the users stay away."""
    users = rng.permutation(np.unique(day.users))
    return day.take(np.flatnonzero(~np.isin(day.users, users[: len(users) // 6])))


def test_a_usual_day_and_a_holiday_are_admitted(
    sample: tuple[DayGate, date, Events], rng: np.random.Generator
) -> None:
    gate, last, events = sample
    for day in (events, holiday(events, rng)):
        verdict = gate.try_day(last, day)
        assert (verdict.admitted, verdict.reasons) == (True, [])
    assert verdict.figures["users"] == len(np.unique(day.users))
    assert verdict.figures["history_lift"] > 1.1


@pytest.mark.parametrize(
    ("poison", "said"),
    [
        (lambda day, rng: day.take(np.arange(len(day) // 3)), "hardly any user from"),
        (lambda day, rng: replace(day, items=np.roll(day.items, 1)), "goes with their histories"),
        (
            lambda day, rng: Events(
                np.char.add("shop-", day.users), np.char.add("sku-", day.items), day.times
            ),
            "of the users new",
        ),
        (lambda day, rng: added(day, [f"new-{n}" for n in range(10_000)], rng), "of the users new"),
        (lambda day, rng: added(day, ["user-00001"] * 100_000, rng), "of the rows by one user"),
    ],
    ids=["cut", "shifted", "foreign", "10,000 new users", "100,000 events of one"],
)
def test_a_damaged_day_is_excluded_and_says_why(
    sample: tuple[DayGate, date, Events], rng: np.random.Generator, poison: object, said: str
) -> None:
    gate, last, events = sample
    verdict = gate.try_day(last, poison(events, rng))  # type: ignore[operator]
    assert not verdict.admitted
    assert any(said in reason for reason in verdict.reasons)


def test_a_first_week_is_admitted_whatever_its_days_look_like(tmp_path: Path) -> None:
    gate = DayGate(tmp_path)
    for n, (day, events) in enumerate(sample_days(replace(SAMPLE, n_days=6)).items()):
        assert gate.deliver(day, events.take(np.arange(len(events) // (1 + n % 3)))).admitted


def test_a_verdict_is_the_same_again_and_an_excluded_day_changes_no_other(tmp_path: Path) -> None:
    """Delivered or not: the figures of the day after an excluded one are the same."""
    *before, (bad, events), (last, after) = sample_days(replace(SAMPLE, n_days=12)).items()
    gate = DayGate(tmp_path)
    for day, its_events in before:
        gate.deliver(day, its_events)
    without = gate.try_day(last, after)
    poisoned = replace(events, items=np.roll(events.items, 1))
    tried = gate.try_day(bad, poisoned)
    assert gate.deliver(bad, poisoned) == tried
    assert not tried.admitted
    found = gate.try_day(last, after)
    assert found.admitted
    assert found.figures == without.figures


def test_what_is_usual_starts_anew_after_a_change_that_lasts(folder: DataFolder) -> None:
    """Three days of another log in a row are excluded; what comes then is compared with itself."""

    def deliver(number: int, prefix: str, users: int) -> bool:
        day = FIRST + timedelta(days=number)
        lines = [f"{prefix}{n},item-{n % 7},{day}T{n % 24:02}:00\n" for n in range(users)]
        folder.take(HEADER + "".join(lines), f"{day}.csv")
        with folder.warehouse.connect() as connection:
            return admit(connection, day, None).admitted

    assert all(deliver(number, "a", 100) for number in range(12))
    assert not any(deliver(number, "b", 2000) for number in range(12, 15))
    assert deliver(15, "b", 2000)
    with folder.warehouse.reading() as connection:
        assert sorted(excluded_days(connection)) == [
            FIRST + timedelta(days=number) for number in range(12, 15)
        ]
