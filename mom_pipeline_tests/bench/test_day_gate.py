"""The gate on real and sample logs: what it excludes of poisoned days, and what of normal ones."""

import gzip
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.day_gate import DayGate, read_log, run_day_gate, tables_day_gate
from mom_pipeline.bench.poison import POISONS, Events, Surroundings

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> tuple[DayGate, date, Events, Surroundings]:
    """The gate after 5 weeks of 30Music, the next day, and what to poison it with."""
    if not (SHARED / "30music.parquet").exists():
        pytest.skip("30Music is not beside the repository")
    days = list(read_log(SHARED, "30music").items())[150:186]
    gate = DayGate(tmp_path_factory.mktemp("30music"))
    excluded = [day for day, events in days[:-1] if not gate.deliver(day, events).admitted]
    assert len(excluded) <= 1
    *_, other = read_log(SHARED, "movietweetings").values()
    return gate, *days[-1], gate.surroundings(other)


def test_a_normal_day_of_a_real_log_is_admitted(
    music: tuple[DayGate, date, Events, Surroundings],
) -> None:
    gate, day, events, _ = music
    assert gate.try_day(day, events).reasons == []


@pytest.mark.parametrize("name", POISONS)
def test_poison_is_excluded_from_a_real_log(
    name: str, music: tuple[DayGate, date, Events, Surroundings]
) -> None:
    gate, day, events, around = music
    assert not gate.try_day(day, POISONS[name](events, around, np.random.default_rng(0))).admitted


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


def test_the_bench_tells_every_scenario_and_every_day_excluded(tmp_path: Path) -> None:
    write_movietweetings(tmp_path, "movietweetings/ratings.dat.gz", 12)
    result = run_day_gate(tmp_path, "movietweetings", tried=1)
    assert result["n_days"] == 12
    poisoned, normal = tables_day_gate(result)
    assert [row["scenario"] for row in poisoned.rows] == list(POISONS)
    assert poisoned.rows[3]["excluded"] == "1 of 1"
    assert "excluded: 0 of 12" in normal.title
