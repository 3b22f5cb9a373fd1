"""Days of a log: the seconds of each run, and what lies on disk after it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench import year
from mom_pipeline.bench.poison import Events

FIRST = date(2024, 3, 1)


def log(folder: Path, name: str) -> dict[date, Events]:
    """Four days of forty users, each of one of two tastes."""
    rng, days = np.random.default_rng(0), {}
    for day in (FIRST + timedelta(days=n) for n in range(4)):
        users = np.repeat(np.arange(40), 6)
        items = rng.integers(0, 12, len(users)) + 12 * (users % 2)
        start = datetime.combine(day, datetime.min.time(), UTC).timestamp()
        times = start + np.arange(len(users))
        days[day] = Events(np.char.add("u", users.astype(str)), items.astype(str), times)
    return days


@pytest.fixture(scope="module")
def result() -> dict:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(year, "read_log", log)
        patched.setenv("MOM_TUNING__EVERY_DAYS", "0")
        patched.setenv("MOM_MODEL__N_COMPONENTS", "2")
        patched.setenv("MOM_MODEL__RANKING", "components")
        return year.run_year(Path(), days=3, run_days=2)


def test_every_run_and_every_command_is_measured(result: dict):
    assert result["days"] == 3
    assert [run["until"] for run in result["runs"]] == ["2024-03-02", "2024-03-03"]
    for run in result["runs"]:
        assert run["parts"]["artifacts"] > 0 < run["parts"]["warehouse.duckdb"]
        assert run["megabytes"] == pytest.approx(sum(run["parts"].values()))
    assert [row["command"] for row in result["commands"]] == ["recommend", "status", "update"]


def test_a_file_with_two_names_counts_once(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    once = year.megabytes(tmp_path)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert year.megabytes(tmp_path) == once >= 0.1
