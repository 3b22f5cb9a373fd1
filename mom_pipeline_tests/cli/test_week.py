"""A first week, as typed: look, update, bad deliveries, decisions, another model, damage."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from mom_pipeline.serving.lists import export_path
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import SETTINGS_FILE, mom, rows, statuses

HEADER = "user,item,timestamp\n"
NOT_WHOLE = "The model in use is not whole"


def deliver(folder: Path, name: str, *lines: str) -> None:
    (folder / "logs" / name).write_text(HEADER + "".join(f"{line}\n" for line in lines))


def registry(folder: Path) -> ModelRegistry:
    return ModelRegistry(folder / "models")


def test_demo_shows_lists_and_leaves_every_day_fresh(demonstrated):
    folder, shown = demonstrated
    for words in ("popularity", "recommended", "In use: 2024-03-04-", "mom-pipeline ui"):
        assert words in shown
    assert set(statuses(folder).values()) == {"fresh"}
    assert "Nothing to compute. Days: 4 fresh." in mom(folder, "update").stdout
    status = mom(folder, "status").stdout.splitlines()
    assert status[0].startswith("In use: 2024-03-04-")
    assert len(status) <= 10
    assert "2024-03-02" in mom(folder, "status", "--days").stdout
    assert "recommended" in mom(folder, "demo").stdout


def test_late_rows_recompute_the_days_from_theirs_on(shop):
    deliver(shop, "2024-03-03-late.csv", "ben-00001,jazz-001,2024-03-03T10:00:00")
    assert statuses(shop) == {"01": "fresh", "02": "fresh", "03": "stale", "04": "stale"}
    assert "Materialized 2024-03-03 to 2024-03-04" in mom(shop, "update").stdout
    assert set(statuses(shop).values()) == {"fresh"}
    for path in (shop / "artifacts" / "whitening_matrix").glob("2024-03-02*"):
        path.unlink()
    assert statuses(shop)["02"] == "stale"
    mom(shop, "backfill", "--from", "2024-03-02", "--to", "2024-03-04", "--full")
    found = mom(shop, "status", "--json").json
    assert [day["mode"] for day in found["days"]] == ["full"] * 4
    assert {day["status"] for day in found["days"]} == {"fresh"}


@pytest.mark.parametrize(
    ("line", "between"),
    [("garbage", ["update"]), ("garbage", []), ("ben-00001,jazz-001,2024-03-05T10:00:00", [])],
)
def test_an_erasure_after_the_newest_file_went_leaves_the_newest_usual_day_in_use(
    shop, line, between
):
    newest = shop / "logs" / "2024-03-05.csv"
    newest.write_text(f"{HEADER}{line}\n")
    mom(shop, "update")
    newest.unlink()
    for command in between:
        mom(shop, command)
    mom(shop, "erase", "ada-00234", "--yes")
    assert registry(shop).champion_version()[:10] == "2024-03-04"
    mom(shop, "update")
    assert mom(shop, "status").stdout.startswith("In use: 2024-03-04")
    assert mom(shop, "recommend", "ben-00001").stdout


def test_a_bad_file_and_a_cut_day_cost_their_own_day_until_somebody_decides(shop):
    (shop / "logs" / "2024-03-05.csv").write_text("who,what\n1,2\n")
    deliver(shop, "2024-03-06.csv", *(f"ben-0000{n},jazz-001,2024-03-06T01:00:00" for n in "123"))
    (shop / "logs" / "9999-12-31.csv").write_text(HEADER)
    done = mom(shop, "update")
    assert "2024-03-05.csv has no column 'user'" in done.stderr
    assert "2024-03-06 excluded" in done.stderr
    assert "Set aside: 9999-12-31.csv:" in done.stderr
    assert statuses(shop) == {
        **{f"0{day}": "fresh" for day in range(1, 5)},
        "05": "failed",
        "06": "excluded",
    }
    assert registry(shop).champion_version()[:10] == "2024-03-04"
    assert "Nothing to compute" in mom(shop, "update").stdout
    assert len(mom(shop, "status").stdout.splitlines()) <= 10

    deliver(shop, "2024-03-05.csv", "ben-00001,jazz-001,2024-03-05T10:00:00")
    assert "it was 3 rows" in mom(shop, "accept", "2024-03-06").stdout
    mom(shop, "update")
    assert statuses(shop)["06"] == "fresh"
    assert registry(shop).champion_version().startswith("2024-03-06")
    assert rows(shop, "SELECT count(*) FROM admitted_logs WHERE day(delivery_day) = 6") == [(3,)]

    assert "3 rows removed" in mom(shop, "drop", "2024-03-06").stdout
    assert rows(shop, "SELECT count(*) FROM raw_logs WHERE day(delivery_day) = 6") == [(0,)]
    assert "dropped" in mom(shop, "accept", "2024-03-06").stdout
    assert "neither excluded nor dropped" in mom(shop, "accept", "2024-03-06", code=1).stderr
    assert "brought no rows" in mom(shop, "drop", "2024-05-01", code=1).stderr


def lists_of(folder: Path) -> tuple[set[str], bool]:
    """The models that the table names, and whether the export is the table."""
    columns = "model, user_id, rank, item_id"
    table = rows(folder, f"SELECT {columns} FROM recommendations ORDER BY ALL")
    path = export_path(load_settings(folder, {}))
    export = duckdb.sql(f"SELECT {columns} FROM '{path}' ORDER BY ALL").fetchall()
    return {row[0] for row in table}, table == export


def test_table_and_export_follow_before_promote_and_rollback_return(shop):
    first, newest = registry(shop).names()[0], registry(shop).champion_version()
    assert lists_of(shop) == ({newest}, True)
    assert f"{first} is the champion now, after {newest}" in mom(shop, "promote", first).stdout
    assert lists_of(shop) == ({first}, True)
    mom(shop, "rollback")
    assert lists_of(shop) == ({newest}, True)
    mom(shop, "promote", first)
    deliver(shop, "2024-03-05.csv", "ben-00001,jazz-001,2024-03-05T10:00:00")
    mom(shop, "accept", "2024-03-05", code=1)
    mom(shop, "update")
    assert lists_of(shop) == ({first}, True)  # what a person chose stays


def gone(folder: Path) -> None:
    shutil.rmtree(registry(folder).folder(registry(folder).champion_version()))


def elsewhere(folder: Path) -> None:
    path = folder / "models" / "champion.json"
    pointer = json.loads(path.read_text())
    pointer["promotions"][-1]["version"] = "../../../x"
    path.write_text(json.dumps(pointer))


def no_pointer(folder: Path) -> None:
    (folder / "models" / "champion.json").write_text("17")


@pytest.mark.parametrize("damage", [gone, elsewhere, no_pointer])
def test_a_model_in_use_that_is_not_whole_is_said_first_and_mended(shop, damage):
    damage(shop)
    assert mom(shop, "status", code=1).stdout.startswith(NOT_WHOLE)
    assert mom(shop, "status", "--json", code=1).json["damaged"]
    assert NOT_WHOLE in mom(shop, "update").stderr
    assert registry(shop).champion().manifest.day == "2024-03-04"
    assert mom(shop, "status").stdout.startswith("In use: 2024-03-04-")
    assert lists_of(shop) == ({registry(shop).champion_version()}, True)


def test_a_damaged_pointer_stops_no_new_day(shop):
    no_pointer(shop)
    deliver(shop, "2024-03-04-late.csv", "ben-00001,jazz-001,2024-03-04T10:00:00")
    assert "In use: 2024-03-04-" in mom(shop, "update").stdout


def test_without_days_to_compute_the_newest_whole_version_is_used(computed, tmp_path):
    folder = tmp_path / "models-alone"
    shutil.copytree(computed / "models", folder / "models")
    gone(folder)
    before = registry(folder).names()[-1]
    mom(folder, "update")
    assert lists_of(folder) == ({before}, True)
    assert mom(folder, "status").stdout.startswith(f"In use: {before}")


def test_logs_that_ended_long_ago_go_on_today(shop):
    """The days of the definitions end with the logs, and are those of the moment of a command."""
    today = datetime.now(tz=UTC).date()
    deliver(shop, f"{today}.csv", f"ben-00001,jazz-001,{today}T00:00:00")
    assert f"{today}.\n" in mom(shop, "update").stdout


def test_days_that_there_are_not_are_refused(shop):
    said = mom(shop, "update", "--day", "2023-01-01", code=2).stderr
    assert "none of the days of the pipeline" in said
    said = mom(shop, "backfill", "--from", "2024-03-02", "--to", "2024-03-01", code=2).stderr
    assert "lies after" in said


def test_one_day_is_enough_for_an_answer(computed, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "pipeline.toml").write_text(SETTINGS_FILE)
    (first,) = (computed / "logs").glob("2024-03-01*")
    shutil.copy(first, tmp_path / "logs")
    assert "unproven" in mom(tmp_path, "update").stdout
    assert 'start_date = "2024-03-01"' in (tmp_path / "pipeline.toml").read_text()
    assert "model 2024-03-01-" in mom(tmp_path, "recommend", "ben-00001").stdout
    assert "unproven" in mom(tmp_path, "models").stdout


def test_a_day_without_a_model_says_why(tmp_path):
    (tmp_path / "logs").mkdir()
    deliver(tmp_path, "2024-03-01.csv", "somebody,something,2024-03-01T10:00:00")
    shown = mom(tmp_path, "update").stdout
    assert "No model is in use yet. 2024-03-01: " in shown
    assert "of 1 users and 1 items none passes the filters (matrix.min_item_users = 5" in shown
    assert "recommended" not in shown
    assert "says why not yet" in mom(tmp_path, "recommend", "somebody", code=1).stderr


def test_a_failed_update_says_what_is_in_use(shop):
    (shop / "exports" / "recommendations.parquet").unlink()
    shutil.rmtree(shop / "exports")
    (shop / "exports").write_text("no folder")
    deliver(shop, "2024-03-04-late.csv", "ben-00001,jazz-001,2024-03-04T10:00:00")
    failed = mom(shop, "update", code=1)
    assert "recommendations failed" in failed.stderr
    assert "In use: 2024-03-04-" in failed.stdout
    assert statuses(shop)["04"] == "failed"
