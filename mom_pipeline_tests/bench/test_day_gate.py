"""The gate for new days, on the sample logs and on a real one: poison stays out, days pass."""

import gzip
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.day_gate import DayGate, read_log, run_day_gate, tables_day_gate
from mom_pipeline.bench.poison import POISONS, Events, Surroundings
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_30music = pytest.mark.skipif(
    not (SHARED / "30music.parquet").exists(), reason="30Music is not beside the repository"
)


def sample_days(settings: SampleSettings) -> dict[date, Events]:
    """Return the good lines of the sample logs, as they are in the end."""
    days = {}
    for delivery in sample_deliveries(settings):
        lines = [line.split(",") for line in gzip.decompress(delivery.content).decode().split("\n")]
        good = [line for line in lines if len(line) == 3 and line[2].startswith("20")]
        users, items, texts = (np.array(column) for column in zip(*good, strict=True))
        times = np.array([int(datetime.fromisoformat(f"{t}+00:00").timestamp()) for t in texts])
        days[delivery.day] = Events(users, items, times)
    return dict(sorted(days.items()))


@pytest.fixture(scope="module")
def sample() -> tuple[DayGate, date, Events, Surroundings]:
    """The gate after 27 of the sample's 28 days; the last day; what to poison it with."""
    days = sample_days(SampleSettings())
    *before, (last, events) = days.items()
    gate = DayGate(refit=9, n_components=8)
    for day, its_events in before:
        gate.take(day, its_events)
    other = SampleSettings(n_days=2, n_users=900, n_items=300, seed=5)
    return gate, last, events, gate.surroundings(sample_days(other)[date(2024, 3, 2)])


def test_no_day_of_the_sample_is_kept_out(
    sample: tuple[DayGate, date, Events, Surroundings],
) -> None:
    gate, last, events, _ = sample
    assert gate.kept_out == {}
    assert gate.judge(last, events) == []


@pytest.mark.parametrize("name", POISONS)
def test_poison_is_kept_out_of_the_sample(
    name: str, sample: tuple[DayGate, date, Events, Surroundings]
) -> None:
    gate, last, events, around = sample
    assert gate.judge(last, POISONS[name](events, around, np.random.default_rng(0)))


@pytest.fixture(scope="module")
def music() -> tuple[DayGate, date, Events, Surroundings]:
    """The gate after 9 weeks of 30Music, by the figures alone."""
    gate, days = DayGate(refit=0), list(read_log(SHARED, "30music").items())
    for day, events in days[:63]:
        gate.take(day, events)
    *_, other = read_log(SHARED, "movietweetings").values()
    return gate, *days[63], gate.surroundings(other)


@needs_30music
def test_normal_days_of_a_real_log_pass(music: tuple[DayGate, date, Events, Surroundings]) -> None:
    gate, day, events, _ = music
    assert len(gate.kept_out) <= 0.02 * 63
    assert gate.judge(day, events) == []


@needs_30music
@pytest.mark.parametrize(
    "name",
    [
        "100 random events per user",
        "5 random events per user",
        "every line ten times",
        "first half only",
        "second half only",
        "random half of the lines",
        "random half of the users",
        "next known user",
        "all under one user",
        "one user's rows only",
        "another shop, other ids",
        "another shop, same ids",
    ],
)
def test_poison_is_kept_out_of_a_real_log(
    name: str, music: tuple[DayGate, date, Events, Surroundings]
) -> None:
    gate, day, events, around = music
    assert gate.judge(day, POISONS[name](events, around, np.random.default_rng(0)))


def write_movietweetings(folder: Path, name: str, n_days: int) -> None:
    """Write a small log in the published form."""
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(60)}::{rng.integers(30)}::8::{86_400 * day + 600 * n}"
        for day in range(1, n_days + 1)
        for n in range(120)
    ]
    (folder / "movietweetings").mkdir()
    (folder / name).write_bytes(gzip.compress("\n".join(lines).encode()))


def test_the_bench_tells_every_scenario_and_every_day_kept_out(tmp_path: Path) -> None:
    write_movietweetings(tmp_path, "movietweetings/ratings.dat.gz", 12)
    result = run_day_gate(tmp_path, "movietweetings", tried=1, refit=6, n_components=3)
    assert result["n_days"] == 12
    poisoned, normal = tables_day_gate(result)
    assert [row["scenario"] for row in poisoned.rows] == list(POISONS)
    assert poisoned.rows[3]["kept out"] == "1 of 1"
    assert "kept out: 0 of 12" in normal.title
