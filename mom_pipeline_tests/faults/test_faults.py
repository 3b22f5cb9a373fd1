"""A few of the faults of `python -m mom_pipeline_tests.faults`, and damage that is seen."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.store import ArtifactStore
from mom_pipeline.artifacts.writer import LOCK, writing_to
from mom_pipeline.cli.failures import sentence_for
from mom_pipeline.cli.verify import Damage, damages
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.matrix import matrix_as_of
from mom_pipeline_tests.faults.commands import Ended, Kill
from mom_pipeline_tests.faults.folders import contents, copy, differences, left_over
from mom_pipeline_tests.faults.fuzz import fuzz
from mom_pipeline_tests.faults.guards import GUARDS, ROOT
from mom_pipeline_tests.faults.kills import (
    Ground,
    Killed,
    prepared,
    strike_erase,
    strike_rollback,
    strike_update,
)
from mom_pipeline_tests.faults.writes import concurrent_writes


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with prepared(tmp_path_factory.mktemp("faults")) as ground:
        yield ground


def test_a_killed_update_ends_as_an_undisturbed_one(ground: Ground, tmp_path):
    counts = Killed()
    kill = Kill("recommendations", "2024-03-03", "within", 0.02)
    strike_update(ground, tmp_path / "data", kill, counts)
    assert counts.failures == []
    assert counts.kills["update"] == 1


def test_an_erasure_killed_before_its_first_asset_goes_on(ground: Ground, tmp_path):
    counts = Killed()
    kill = Kill("whitening_matrix", "2024-03-01", "before")
    strike_erase(ground, tmp_path / "data", kill, counts)
    assert counts.failures == []
    assert counts.kills["erase"] == 1


def test_a_killed_rollback_leaves_one_champion(ground: Ground, tmp_path):
    counts = Killed()
    strike_rollback(ground, tmp_path / "data", Kill(seconds=0.005), counts)
    assert counts.failures == []


def test_writers_of_one_day_leave_it_whole(tmp_path):
    written = concurrent_writes(tmp_path, 40)
    assert written.failures == []
    assert written.writes == 40


def test_every_line_of_a_damaged_file_is_accounted_for(tmp_path):
    fuzzed = fuzz(tmp_path, 100, seed=1)
    assert fuzzed.failures == []
    assert fuzzed.taken > 20
    assert fuzzed.refused > 5


def test_every_guard_is_where_the_long_command_looks_for_it():
    for guard in GUARDS:
        text = (ROOT / "mom_pipeline" / guard.file).read_text(encoding="utf-8")
        assert text.count(guard.code) == 1, guard.name


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


def in_one_sentence(ended: Ended) -> str:
    assert ended.code == 1
    assert "Traceback" not in ended.output
    return ended.output.splitlines()[-1]


def test_a_full_disk_is_said_and_all_converges_when_there_is_room(ground: Ground, tmp_path):
    folder = copy(ground.stale, tmp_path / "data")
    full = ground.run.run(folder, "update", file_size=300_000)
    assert "oom on the disk" in in_one_sentence(full)
    assert ground.run.run(folder, "update").code == 0
    assert differences(folder, ground.expected) == []


SMALL, NEXT = "2024-03-04", "2024-03-05"
SMALL_DAY = date(2024, 3, 4)


def with_small_day(folder: Path, day: str) -> Path:
    """Deliver a day of three users: its matrix is stored as a change of an earlier one."""
    lines = "".join(f"user-{n:05},jazz-001,{day}T10:00:00\n" for n in (1, 2, 3))
    (folder / "logs" / f"{day}.csv").write_text("user,item,timestamp\n" + lines)
    return folder


@pytest.fixture(scope="module")
def accepted(ground: Ground) -> Path:
    """The fresh folder with a small day: kept out, then accepted, and to be computed again."""
    folder = with_small_day(copy(ground.fresh, ground.fresh.with_name("accepted")), SMALL)
    assert ground.run.run(folder, "update").code == 0
    assert ground.run.run(folder, "accept", SMALL).code == 0
    return folder


@pytest.fixture(scope="module")
def with_delta(ground: Ground, accepted: Path) -> Path:
    """The folder with the small day computed: three rows of its matrix are stored."""
    folder = copy(accepted, accepted.with_name("delta"))
    assert ground.run.run(folder, "update").code == 0
    stored = ArtifactStore(folder / "artifacts").read("interaction_matrix", SMALL_DAY)
    assert stored.metadata["whole_day"] == "2024-03-03"
    assert len(stored.dense["users"]) == 3
    return folder


def test_a_disk_that_fills_in_the_middle_of_a_delta(
    ground: Ground, accepted: Path, with_delta: Path, tmp_path
):
    folder = copy(accepted, tmp_path / "data")
    versions = [p.read_text() for p in folder.glob("artifacts/interaction_matrix/*/current")]
    full = ground.run.run(folder, "update", kill=Kill("interaction_matrix", SMALL, "full"))
    assert re.search("No space left on device.* Make room on the disk", in_one_sentence(full))
    assert versions == [
        p.read_text() for p in folder.glob("artifacts/interaction_matrix/*/current")
    ]
    assert left_over(folder) == []
    assert ground.run.run(folder, "update").code == 0
    assert differences(folder, contents(with_delta)) == []


def test_a_delta_whose_base_is_damaged_is_rebuilt_by_update(
    ground: Ground, with_delta: Path, tmp_path
):
    folder = with_small_day(copy(with_delta, tmp_path / "data"), NEXT)
    [base] = (folder / "artifacts" / "interaction_matrix" / "2024-03-03").glob("*/*actions.npz")
    flip(base)
    assert "artifacts/interaction_matrix/2024-03-03" in verified(folder)
    assert ground.run.run(folder, "update").code == 0
    assert verified(folder) == {}
    for day in (SMALL, NEXT):
        assert_as_in_the_logs(folder, day)
    assert "Nothing to compute" in ground.run.run(folder, "update").output


def assert_as_in_the_logs(folder: Path, text: str) -> None:
    settings, day = load_settings(folder, {}), date.fromisoformat(text)
    expected = matrix_as_of(Warehouse(settings), day).interactions
    assert (expected != DayState(settings).rows(day).X).nnz == 0


def test_a_damaged_history_is_named_and_the_days_are_still_shown(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    (folder / "dagster_home" / "history" / "runs.db").write_bytes(b"garbage" * 1000)
    shown = ground.run.run(folder, "status")
    assert shown.code == 0
    assert "move dagster_home out of the data folder" in shown.output
    days = ("--from", "2024-03-03", "--to", "2024-03-03")
    assert "move dagster_home" in in_one_sentence(ground.run.run(folder, "backfill", *days))
    (folder / "dagster_home").rename(tmp_path / "away")
    assert "Nothing to compute. Days: 3 fresh." in ground.run.run(folder, "update").output


def verified(folder: Path) -> dict[str, Damage]:
    return {damage.where: damage for damage in damages(load_settings(folder, {}))}


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
    assert json.loads(shown.output)["checked"] > 50
    assert "Nothing to compute. Days: 3 fresh." in ground.run.run(folder, "update").output


def test_every_kind_of_damage_is_seen_and_what_is_named_mends_it(ground: Ground, tmp_path):
    folder = copy(ground.fresh, tmp_path / "data")
    day = "2024-03-02"
    [array] = (folder / "artifacts" / "m2_statistics" / day).glob("*/triples.npz")
    [anchor] = (folder / "artifacts" / "anchor").glob("*/*/basis.npz")
    model = sorted((folder / "models" / "versions").glob("*/people.npz"))[0]
    log = folder / "logs" / f"{day}.csv.gz"
    for path in (array, anchor, model, log):
        flip(path)
    (folder / "artifacts" / "decomposition" / day / "current").write_bytes(b"\xff\xfe\x00")
    export = folder / "exports" / "recommendations" / f"{day}.parquet"
    export.write_bytes(export.read_bytes()[:-100])
    (folder / "models" / "champion.json").write_bytes(b"\xff{")
    found = verified(folder)
    assert {name.split("/")[0] for name in found} == {"artifacts", "exports", "logs", "models"}
    again = f"`mom-pipeline backfill --from {day} --to {day}`"
    assert found[f"artifacts/m2_statistics/{day}"].remedy == again
    assert found[f"artifacts/decomposition/{day}"].remedy == again
    assert found[f"exports/recommendations/{day}.parquet"].remedy == again
    assert found["artifacts/anchor/2024-03-01"].remedy.endswith("--full`")
    assert found[f"logs/{day}.csv.gz"].remedy == "deliver the file again"
    assert len(found) == 7


def test_a_damaged_warehouse_is_seen(ground: Ground, tmp_path):
    whole = (ground.fresh / "warehouse.duckdb").read_bytes()
    folder = copy(ground.fresh, tmp_path / "data")
    path = folder / "warehouse.duckdb"
    path.write_bytes(whole[: len(whole) // 2])
    assert "remove it" in verified(folder)["warehouse.duckdb"].remedy
    # A bit of every block: DuckDB keeps a checksum of each, and reads only those in use.
    path.write_bytes(whole)
    data = bytearray(whole)
    for block in range(3 * 4096 + 131072, len(data), 262144):
        data[block] ^= 1
    path.write_bytes(data)
    assert "remove it" in verified(folder)["warehouse.duckdb"].remedy


def test_a_row_too_many_is_seen(ground: Ground, tmp_path):
    import duckdb

    folder = copy(ground.fresh, tmp_path / "data")
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO raw_logs FROM raw_logs LIMIT 1")
    assert "rows were taken" in verified(folder)["warehouse.duckdb"].problem


def test_nobody_else_can_read_what_a_run_wrote(ground: Ground):
    ours = [path for path in ground.fresh.rglob("*") if "logs" not in path.parts]
    ours = [path for path in ours if path.name not in ("pipeline.toml", LOCK)]
    assert len(ours) > 200
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


def test_the_table_of_faults_names_tests_that_there_are():
    tests = ROOT / "mom_pipeline_tests"
    rows = re.findall(r"`([\w/]+\.py)::(\w+)` \|$", (tests / "README.md").read_text(), re.M)
    assert len(rows) >= 80
    for name, test in rows:
        assert f"def {test}(" in (tests / name).read_text(encoding="utf-8"), f"{name}::{test}"
