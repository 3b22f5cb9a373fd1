"""The gate on real and sample logs: what it excludes of poisoned days, and what of normal ones."""

from pathlib import Path

import numpy as np
import pytest

from mom_pipeline.bench.day_gate import DayGate, poisoned, read_log, run_day_gate, run_poison
from mom_pipeline.core.ranking import item_days

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def test_poison_is_excluded_from_a_real_log_and_a_normal_day_is_not(tmp_path):
    """After 5 weeks of 30Music."""
    if not (SHARED / "30music.parquet").exists():
        pytest.skip("30Music is not beside the repository")
    days = list(read_log(SHARED, "30music").items())[150:186]
    gate, (day, events) = DayGate(tmp_path), days[-1]
    *_, other = read_log(SHARED, "movietweetings").values()
    with gate.warehouse.opened():
        excluded = [day for day, events in days[:-1] if not gate.deliver(day, events).admitted]
        assert len(excluded) <= 1
        assert gate.try_day(day, events).reasons == []
        users, items = gate.known_ids("user"), gate.known_ids("item")
        bad_days = poisoned(events, users, items, other, np.random.default_rng(0))
        assert len(bad_days) == 19
        admitted = [name for name, bad in bad_days.items() if gate.try_day(day, bad).admitted]
    assert admitted == []


def test_the_bench_tells_every_scenario_and_every_day_excluded(tmp_path, publish):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.integers(60)}::{rng.integers(30)}::8::{86_400 * day + 600 * n}"
        for day in range(1, 13)
        for n in range(120)
    ]
    publish(lines)
    result = run_day_gate(tmp_path, "movietweetings", tried=1)
    assert (result["normal_days"], result["of_them_excluded"], result["excluded"]) == (12, 0, [])
    by_name = {row["scenario"]: (row["excluded"], row["of"]) for row in result["poisoned"]}
    assert len(by_name) == 19
    assert by_name["every line ten times"] == (1, 1)


def test_a_pushed_item_enters_few_lists_and_many_without_the_bound(tmp_path, publish, monkeypatch):
    rng = np.random.default_rng(0)
    users, items = rng.integers(1500, size=9000), np.arange(9000) // 90 + rng.geometric(0.1, 9000)
    lines = [f"{u}::{i}::8::{300 * n}" for n, (u, i) in enumerate(zip(users, items, strict=True))]
    publish(lines)
    bounded = run_poison(tmp_path)
    monkeypatch.setattr(item_days, "_SUDDEN", 10**9)
    free = run_poison(tmp_path)["rows"]
    assert (bounded["pushing_accounts"], len(free)) == (15, 5)
    assert max(row["share_of_people"] for row in bounded["rows"]) < 0.1
    assert min(row["share_of_people"] for row in free) > 0.5
