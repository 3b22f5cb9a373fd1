"""Benches of time and memory at small sizes: what they report, never how fast it was."""

import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import click
import numpy as np
import pytest

from mom_pipeline.bench import growth, serving
from mom_pipeline.bench.daily import run_daily
from mom_pipeline.bench.data import ClusteredCatalogue, clustered_interactions
from mom_pipeline.bench.day_gate import Events
from mom_pipeline.cli.main import cli


@pytest.mark.parametrize("size", [(300, 200, 2_400), (50, 1_000, 1_500), (40, 12, 60)])
def test_simulated_data_have_the_size_that_was_asked_for_and_nobody_is_empty(size):
    n_users, n_items, n_pairs = size
    X = clustered_interactions(*size, np.random.default_rng(0), n_clusters=6)
    assert (X.shape, X.nnz) == ((n_users, n_items), n_pairs)
    assert set(X.data) == {1.0}
    assert X.has_canonical_format
    assert np.diff(X.indptr).min() >= 1


def test_every_item_is_taken_and_tails_are_heavy():
    X = clustered_interactions(5_000, 2_000, 50_000, np.random.default_rng(2))
    taken, lengths = np.bincount(X.indices, minlength=2_000), np.diff(X.indptr)
    assert taken.min() >= 1
    assert taken.max() > 10 * np.median(taken)
    assert lengths.max() > 5 * np.median(lengths)


def test_users_keep_to_their_tastes():
    catalogue = ClusteredCatalogue.random(1_000, 10, np.random.default_rng(3))
    X = catalogue.interactions(500, 5_000, np.random.default_rng(4))
    clusters = np.searchsorted(catalogue.edges, X.indices, side="right") - 1
    rows = [row for row in np.split(clusters, X.indptr[1:-1]) if len(row) >= 10]
    assert np.mean([np.bincount(row).max() / len(row) for row in rows]) > 0.5


def test_every_share_of_changed_users_is_measured():
    result = run_daily(0.003, n_components=5, shares=(0.01, 0.1))
    assert [day["share_changed"] for day in result["days"]] == [0.01, 0.1]
    full, everyone = result["full_seconds"], result["personalization_seconds"]
    for day in result["days"]:
        assert day["to_full"] == pytest.approx(day["seconds"] / full)
        both = (day["seconds"] + everyone) / (full + everyone)
        assert day["with_everyone_to_full"] == pytest.approx(both)
    rebuild, *days = result["ranked"]
    assert [day["share_changed"] for day in days] == [0.01, 0.1]
    for day in days:
        parts = day["moments_seconds"], day["ease_seconds"], day["lists_seconds"]
        assert 0 < sum(parts) == pytest.approx(day["seconds"])
        assert day["to_full"] == pytest.approx(day["seconds"] / rebuild["seconds"])
        assert 0 < day["lists"] <= day["share_changed"] * rebuild["lists"]


def test_growth_measures_every_part_of_the_users():
    result = growth.run_growth(0.0004, n_components=4, eighths=(1, 8))
    first, last = result["rows"]
    assert (last["users"], last["interactions"]) == (4_000, 22_800)
    assert first["users"] == pytest.approx(500, rel=0.1)
    for row in (first, last):
        assert row["seconds"] >= sum(row["stages"].values())
        assert row["peak_gigabytes"] > 0.01
    ratio = last["seconds"] / first["seconds"]
    assert last["multiple"] == pytest.approx(ratio)
    assert result["slope"] == pytest.approx(np.log(ratio) / np.log(last["users"] / first["users"]))


@pytest.fixture
def few_users(monkeypatch):
    monkeypatch.setattr(serving, "_USERS", 1_000)
    monkeypatch.setattr(serving, "_ITEMS_PER_USER", 8)


def test_both_are_asked(few_users):
    rows = serving.run_query(0.005, n_components=4)["rows"]
    assert [row["ranking"] for row in rows] == ["components", "three-moment"]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours_median_ms"] / row["implicit_median_ms"])
        for name in ("ours", "implicit"):
            assert row[f"{name}_median_ms"] <= row[f"{name}_p99_ms"]


def test_no_request_and_no_event_is_lost_under_load(few_users):
    result = serving.run_serve(0.003, n_components=4, requests=300, clients=2)
    rows = {row["how"]: row for row in result["rows"]}
    asked = ["1 worker", "2 workers", "1 worker, beside events", "2 workers, beside events"]
    assert list(rows) == [*asked, "in a file"]
    for row in rows.values():
        assert row["errors"] == 0, row["kinds_of_errors"]
        assert row["p50_ms"] <= row["p99_ms"] <= row["longest_ms"]
        assert row["versions"] in (1, 2)
    told = [(row["requests"], row["errors"]) for row in result["events"]]
    assert (told, result["events_lost_or_doubled"]) == ([(300, 0)] * 2, 0)
    assert (result["answers_after_an_item_is_hidden"], result["of_these_with_it"]) == (1_002, 0)


def four_days(folder, name):
    """Days of forty users, each of one of two tastes."""
    rng, days = np.random.default_rng(0), {}
    for day in (date(2024, 3, 1) + timedelta(days=n) for n in range(4)):
        users = np.repeat(np.arange(40), 6)
        items = rng.integers(0, 12, len(users)) + 12 * (users % 2)
        start = datetime.combine(day, datetime.min.time(), UTC).timestamp()
        times = start + np.arange(len(users))
        days[day] = Events(np.char.add("u", users.astype(str)), items.astype(str), times)
    return days


def test_every_run_and_every_command_of_a_year_is_measured(monkeypatch, folder):
    """Commands are parsed and not run; a day as it is written can be ingested."""
    commands = []

    def parsed(data, *words):
        name, *arguments = map(str, words)
        cli.get_command(click.Context(cli), name).make_context(name, arguments)
        commands.append(" ".join(map(str, words)))
        (data / "artifacts").write_bytes(b"x" * 100_000 * len(commands))
        if len(commands) == 1:
            folder.take((data / "logs" / "2024-03-01.csv").read_text())
        return 1.5

    monkeypatch.setattr(growth, "read_log", four_days)
    monkeypatch.setattr(growth, "_command", parsed)
    result = growth.run_year(Path(), days=3, run_days=2)
    assert commands == [
        "backfill --from 2024-03-01 --to 2024-03-02",
        "backfill --from 2024-03-03 --to 2024-03-03",
        "recommend u0",
        "status",
        "update",
    ]
    assert folder.query("SELECT count(*), count(DISTINCT user_id) FROM raw_logs") == [(240, 40)]
    assert (result["days"], result["seconds"]) == (3, 3.0)
    assert [(run["until"], run["a_day"]) for run in result["runs"]] == [
        ("2024-03-02", 0.75),
        ("2024-03-03", 1.5),
    ]
    first, second = result["runs"]
    assert first["parts"]["artifacts"] < second["parts"]["artifacts"]
    assert second["megabytes"] == pytest.approx(sum(second["parts"].values()))
    assert [row["command"] for row in result["commands"]] == ["recommend", "status", "update"]


def test_a_command_is_a_process_that_must_succeed(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        growth._command(tmp_path, "no-such-command")
