"""A few of the faults of `python -m mom_pipeline_tests.faults`, and damage that is seen."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.artifacts.lock import LOCK, writing_to
from mom_pipeline.cli.main import sentence_for
from mom_pipeline.cli.status import Check, checks
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.faults.clock import Clock
from mom_pipeline_tests.faults.commands import Ended, Kill
from mom_pipeline_tests.faults.damage import flips_and_swaps, mended
from mom_pipeline_tests.faults.folders import LATE, copy, differences, left_over
from mom_pipeline_tests.faults.fuzz import fuzz
from mom_pipeline_tests.faults.kills import (
    STRIKES,
    USER,
    Ground,
    Killed,
    prepared,
    strike_erase,
    strike_points,
    strike_promote,
    strike_rollback,
    strike_update,
)
from mom_pipeline_tests.running import flip


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


@pytest.mark.parametrize(
    ("command", "point", "how"),
    [("update", 150, "kill"), ("erase", 7, "kill"), ("promote", 4, "kill"), ("promote", 9, "fail")],
)
def test_a_few_of_all_points_are_survived(ground: Ground, tmp_path, command, point, how):
    counts, folder = Killed(), copy(ground.stale, tmp_path / "data")
    STRIKES[command](ground, folder, Kill(when=how, point=point), counts)
    assert counts.failures == []
    assert (counts.kills[command], counts.too_late) == (1, 0)


@pytest.mark.long
def test_points_are_survived_for_twenty_minutes(tmp_path):
    assert strike_points(tmp_path, 20 * 60, seed=time.time_ns()).failures == []


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


@pytest.mark.parametrize("written", ["storage: [\n", "storage:\n  nothing: 3\n"])
def test_a_dagster_yaml_of_somebody_that_is_none_is_named(ground: Ground, tmp_path, written):
    folder = copy(ground.fresh, tmp_path / "data")
    (folder / "dagster_home" / "dagster.yaml").write_text(written)
    days = ("--from", "2024-03-03", "--to", "2024-03-03")
    assert "or move it away" in in_one_sentence(ground.run.run(folder, "backfill", *days))
    assert (folder / "dagster_home" / "dagster.yaml").read_text() == written


def verified(folder: Path) -> dict[str, Check]:
    return {check.where: check for check in checks(load_settings(folder, {})) if check.problem}


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
    assert "`mom-pipeline update`" in found[f"artifacts/decomposition/{array.stem}"].remedy
    assert found[f"logs/{day}.csv.gz"].remedy == "deliver the file again"
    assert "`mom-pipeline update`" in found["exports/recommendations.parquet"].remedy
    assert len(found) == 5


@pytest.mark.parametrize("asset", ["moment_sums", "anchor"])
def test_update_heals_a_damaged_array_and_an_export(ground: Ground, tmp_path, asset):
    folder = copy(ground.fresh, tmp_path / "data")
    flip(sorted((folder / "artifacts" / asset).glob("*.npz"))[-1])
    assert next(iter(verified(folder))).startswith(f"artifacts/{asset}/")
    done = ground.run.run(folder, "update")
    assert (done.code, "were damaged; their days" in done.output) == (0, True)
    assert verified(folder) == {}
    export = folder / "exports" / "recommendations.parquet"
    export.write_bytes(export.read_bytes()[:-100])
    assert "The export was damaged" in ground.run.run(folder, "update").output
    assert verified(folder) == {}


@pytest.mark.parametrize("n", [60, pytest.param(2_000, marks=pytest.mark.long)])
def test_flips_and_swaps_in_every_kind_of_file_are_seen(ground: Ground, tmp_path, n):
    found = flips_and_swaps(copy(ground.erased, tmp_path / "data"), n, seed=n)
    assert found.failures == []
    assert found.tried.total() == n
    assert found.seen.total() >= 0.9 * n


def test_a_damaged_warehouse_is_mended_as_named_and_a_version_that_is_not_in_use_goes(
    ground: Ground, tmp_path
):
    folder = copy(ground.fresh, tmp_path / "data")
    old = min((folder / "models" / "versions").glob("*/model.npz"))
    registry = ModelRegistry(folder / "models")
    assert old.parent.name != registry.champion_version()
    (folder / "warehouse.duckdb").unlink()
    assert ground.run.run(folder, "update").code == 0
    flip(old)
    assert "`mom-pipeline update` removes it" in next(iter(verified(folder).values())).remedy
    assert f"are removed: {old.parent.name}" in ground.run.run(folder, "update").output
    assert verified(folder) == {}
    others = differences(folder, ground.expected)  # all days from nothing: another basis
    assert not [name for name in others if name.startswith(("logs", "table raw_logs", "left"))]


@pytest.mark.parametrize("n", [4, pytest.param(100, marks=pytest.mark.long)])
def test_flips_and_swaps_are_mended_by_what_is_named(ground: Ground, tmp_path, n):
    found = mended(ground, tmp_path / "data", n, seed=n)
    assert found.failures == []
    assert found.mended.total() == n


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
@pytest.mark.parametrize("years", [-1, 5])
def test_a_clock_that_was_set_back_or_forward(ground: Ground, tmp_path, years):
    """A late file is taken while the clock is wrong, and a corrected one when it is right again."""
    folder, clock = copy(ground.stale, tmp_path / "data"), Clock(tmp_path)
    clock.run(folder, "update", years=years)
    days = json.loads(clock.run(folder, "status", "--json", years=years))["days"]
    assert {day["status"] for day in days} == {"fresh"}
    assert verified(folder) == {}
    assert "Nothing to compute. Days: 3 fresh." in clock.run(folder, "update")
    late = folder / "logs" / LATE
    late.write_text(late.read_text().replace("jazz-001", "jazz-002"))
    assert "Nothing to compute" not in clock.run(folder, "update")
    assert verified(folder) == {}


def test_nothing_is_changed_beyond_a_link_in_any_folder(ground: Ground, tmp_path):
    """Neither rights nor files of somebody else, whatever a run, an erasure and a promotion do."""
    folder, other = copy(ground.stale, tmp_path / "data"), tmp_path / "other"
    names = ["a.npz", "a.parquet", "a.html", "comparison.json", "manifest.json", "1.lines"]
    for name in names:
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text("of somebody else")
        (other / name).chmod(0o644)
    other.chmod(0o755)
    ended = subprocess.Popen(["true"])
    ended.wait()
    places = [path for path in folder.glob("**/") if "logs" not in path.parts]
    for place in {*places, folder / "tmp", folder / "comparisons"}:
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
        for link in ("link", "2024-03-01-0123456789ab", f".x.0123abcd.{ended.pid}.tmp"):
            (place / link).symlink_to(other)
        (place / "one.html").symlink_to(other / "a.html")
    (folder / "tmp" / f"ingest-{ended.pid}").symlink_to(other)
    for command in (("update",), ("erase", USER, "--yes"), ("promote", "--auto"), ("status",)):
        ended_command = ground.run.run(folder, *command)
        assert ended_command.code == 0, ended_command.output
    assert sorted(path.name for path in other.iterdir()) == sorted(names)
    assert {path.read_text() for path in other.iterdir()} == {"of somebody else"}
    assert {path.stat().st_mode & 0o777 for path in other.iterdir()} == {0o644}
    assert other.stat().st_mode & 0o777 == 0o755
    assert [path for path in folder.rglob("*") if str(ended.pid) in path.name] == []


@pytest.mark.parametrize("odd", ["a folder", "nested", "strange bytes", "a link elsewhere"])
def test_an_odd_file_is_a_sentence_or_is_mended(ground: Ground, tmp_path, odd):
    """Each of several kinds of files in turn: no traceback, and nothing beyond the folder."""
    pointer = Path("models/champion.json")
    names = [pointer, Path("models/evaluated.json"), Path("items.csv"), Path(".writer")]
    manifest = sorted((ground.fresh / "models" / "versions").glob("*/manifest.json"))[0]
    for name in [*names, manifest.relative_to(ground.fresh)]:
        folder = copy(ground.fresh, tmp_path / "data")
        (folder / name).unlink(missing_ok=True)
        if odd == "a folder":
            (folder / name / "x").mkdir(parents=True)
        elif odd == "a link elsewhere":
            (folder / name).symlink_to(tmp_path / "elsewhere")
        else:
            (folder / name).write_bytes(b"[" * 200_000 if odd == "nested" else b"\xff{\x00")
        for command in (("status", "--verify"), ("update",), ("recommend", "ben-00002")):
            ended = ground.run.run(folder, *command)
            assert "Traceback" not in ended.output, f"{name} {command} {ended.output[-500:]}"
    assert not (tmp_path / "elsewhere").exists()


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
