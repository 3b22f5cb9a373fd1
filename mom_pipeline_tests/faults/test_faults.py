"""A few of the faults of `python -m mom_pipeline_tests.faults`, and damage that is seen."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.artifacts.lock import LOCK, writing_to
from mom_pipeline.cli.failures import sentence_for
from mom_pipeline.cli.verify import Check, checks
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.faults.commands import Ended, Kill
from mom_pipeline_tests.faults.folders import copy, left_over
from mom_pipeline_tests.faults.fuzz import fuzz
from mom_pipeline_tests.faults.kills import (
    Ground,
    Killed,
    prepared,
    strike_erase,
    strike_promote,
    strike_rollback,
    strike_update,
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with prepared(tmp_path_factory.mktemp("faults")) as ground:
        yield ground


def in_one_sentence(ended: Ended) -> str:
    assert ended.code == 1
    assert "Traceback" not in ended.output
    return ended.output.splitlines()[-1]


def test_full_disks_and_a_kill_are_survived_and_update_ends_as_an_undisturbed_one(
    ground: Ground, tmp_path
):
    """A disk without room, one that fills in the middle of an array, and kill -9, in a row."""
    folder, counts = copy(ground.stale, tmp_path / "data"), Killed()
    full = in_one_sentence(ground.run.run(folder, "update", file_size=300_000))
    assert "oom on the disk" in full
    half = Kill("decomposition", "2024-03-03", "full")
    full = in_one_sentence(ground.run.run(folder, "update", kill=half))
    assert re.search("No space left on device.* Make room on the disk", full)
    assert left_over(folder) == []
    strike_update(ground, folder, Kill("recommendations", "2024-03-03", "within", 0.02), counts)
    assert counts.failures == []
    assert counts.kills["update"] == 1


def test_an_erasure_killed_before_its_first_asset_goes_on(ground: Ground, tmp_path):
    counts = Killed()
    kill = Kill("whitening_matrix", "2024-03-01", "before")
    strike_erase(ground, tmp_path / "data", kill, counts)
    assert counts.failures == []
    assert counts.kills["erase"] == 1


def test_a_killed_rollback_or_promotion_leaves_one_champion(ground: Ground, tmp_path):
    counts = Killed()
    strike_rollback(ground, tmp_path / "data", Kill(seconds=0.005), counts)
    strike_promote(ground, tmp_path / "data", Kill(seconds=0.05), counts)
    assert counts.failures == []


def test_every_line_of_a_damaged_file_is_accounted_for(tmp_path):
    fuzzed = fuzz(tmp_path, 100, seed=1)
    assert fuzzed.failures == []
    assert fuzzed.taken > 20
    assert fuzzed.refused > 5


def test_a_command_waits_for_whoever_writes_and_says_for_whom(ground: Ground):
    with writing_to(load_settings(ground.fresh, {}), "mom-pipeline erase"):
        ground.run.start(ground.fresh, "update")
        deadline = time.monotonic() + 60
        while "Waiting for mom-pipeline erase (process " not in ground.run.said():
            assert time.monotonic() < deadline, ground.run.said()
            time.sleep(0.05)
    ended = ground.run.end()
    assert ended.code == 0
    assert "Nothing to compute. Days: 3 fresh." in ended.output


def test_a_damaged_history_is_named_and_the_days_are_still_shown(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    (folder / "dagster_home" / "history" / "runs.db").write_bytes(b"garbage" * 1000)
    assert ground.run.run(folder, "status").code == 0
    assert "move dagster_home" in verified(folder)["dagster_home/history/runs.db"].remedy
    days = ("--from", "2024-03-03", "--to", "2024-03-03")
    assert "move dagster_home" in in_one_sentence(ground.run.run(folder, "backfill", *days))
    (folder / "dagster_home").rename(tmp_path / "away")
    assert "Nothing to compute. Days: 3 fresh." in ground.run.run(folder, "update").output


def verified(folder: Path) -> dict[str, Check]:
    return {check.where: check for check in checks(load_settings(folder, {})) if check.problem}


def flip(path: Path) -> None:
    """Turn one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_copy_elsewhere_is_whole_and_fresh(ground: Ground, tmp_path):
    folder = shutil.copytree(ground.fresh, tmp_path / "elsewhere" / "data")
    shown = ground.run.run(folder, "status", "--verify", "--json")
    assert shown.code == 0
    assert json.loads(shown.output)["damaged"] == []
    assert json.loads(shown.output)["checked"] > 30
    assert "Nothing to compute. Days: 3 fresh." in ground.run.run(folder, "update").output


def test_every_kind_of_damage_is_seen_and_update_or_what_is_named_mends_it(
    ground: Ground, tmp_path
):
    folder = copy(ground.fresh, tmp_path / "data")
    day = "2024-03-02"
    again = f"`mom-pipeline backfill --from {day} --to {day}`"
    [array] = (folder / "artifacts" / "decomposition").glob(f"{day}*")
    model = sorted((folder / "models" / "versions").glob("*/people.npz"))[0]
    log = folder / "logs" / f"{day}.csv.gz"
    for path in (array, model, log):
        flip(path)
    export = folder / "exports" / "recommendations.parquet"
    export.write_bytes(export.read_bytes()[:-100])
    (folder / "models" / "champion.json").write_bytes(b"\xff{")
    found = verified(folder)
    assert {name.split("/")[0] for name in found} == {"artifacts", "exports", "logs", "models"}
    assert found[f"artifacts/decomposition/{array.stem}"].remedy == again
    assert found[f"logs/{day}.csv.gz"].remedy == "deliver the file again"
    assert "promote" in found["exports/recommendations.parquet"].remedy
    assert len(found) == 5


def test_a_damaged_warehouse_and_a_row_too_many_are_seen(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    path = folder / "warehouse.duckdb"
    whole = path.read_bytes()
    # A bit of every block: DuckDB keeps a checksum of each, and reads only those in use.
    flipped = bytearray(whole)
    for block in range(3 * 4096 + 131072, len(whole), 262144):
        flipped[block] ^= 1
    for damaged in (whole[: len(whole) // 2], flipped):
        path.write_bytes(damaged)
        assert "remove it" in verified(folder)["warehouse.duckdb"].remedy
    path.write_bytes(whole)
    with duckdb.connect(str(path)) as connection:
        connection.execute("INSERT INTO raw_logs FROM raw_logs LIMIT 1")
    assert "rows were taken" in verified(folder)["warehouse.duckdb"].problem


def test_nobody_else_can_read_what_a_run_wrote(ground: Ground):
    ours = [path for path in ground.fresh.rglob("*") if "logs" not in path.parts]
    ours = [path for path in ours if path.name not in ("pipeline.toml", LOCK)]
    assert len(ours) > 50
    assert [path for path in ours if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(28, "No space left on device", "a"), "Make room"),
        (PermissionError(13, "Permission denied", "a"), "the right to write"),
        (OSError(30, "Read-only file system", "a"), "the right to write"),
        (FileNotFoundError(2, "No such file or directory", "a"), ""),
        (ValueError("Permission denied"), ""),
    ],
)
def test_only_failures_of_the_machine_are_put_into_a_sentence(error, expected):
    try:
        raise RuntimeError("above it") from error
    except RuntimeError as raised:
        said = sentence_for(raised)
    assert expected in said
    assert bool(said) == bool(expected)


TESTS = Path(__file__).parents[1]


def test_the_table_of_faults_names_tests_that_there_are():
    rows = re.findall(r"`([\w/]+\.py)::(\w+)` \|$", (TESTS / "README.md").read_text(), re.M)
    assert len(rows) >= 60
    for name, test in rows:
        assert f"def {test}(" in (TESTS / name).read_text(encoding="utf-8"), f"{name}::{test}"
