"""demo, backfill, update and status, as typed."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from mom_pipeline_tests.defs.conftest import SETTINGS_FILE


def mom(root, *arguments, code=0):
    result = subprocess.run(
        [sys.executable, "-m", "mom_pipeline", *arguments],
        env={**os.environ, "MOM_DATA_DIR": str(root), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stderr
    return result


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    sizes = ("--days", "4", "--users", "300", "--items", "60", "--components", "3")
    mom(folder, "simulate", *sizes, "--events", "900")
    return folder


def statuses(root):
    days = json.loads(mom(root, "status", "--json").stdout)["days"]
    return {day["day"]: day["status"] for day in days}


def test_from_nothing_to_late_data(root, tmp_path):
    assert set(statuses(root).values()) == {"missing"}
    shown = mom(root, "demo").stdout
    assert "popularity" in shown
    assert "recommended" in shown
    assert "mom-pipeline ui" in shown
    assert set(statuses(root).values()) == {"fresh"}
    assert "Nothing to compute. Days: 4 fresh." in mom(root, "update").stdout

    late = root / "logs" / "2024-03-03-late.csv"
    late.write_text("user,item,timestamp\nuser-00001,jazz-001,2024-03-03T10:00:00\n")
    assert statuses(root) == {
        "2024-03-01": "fresh",
        "2024-03-02": "fresh",
        "2024-03-03": "stale",
        "2024-03-04": "stale",
    }
    assert "Materialized 2024-03-03 to 2024-03-04" in mom(root, "update").stdout
    assert set(statuses(root).values()) == {"fresh"}

    shutil.rmtree(root / "artifacts" / "whitening_matrix" / "2024-03-02")
    found = json.loads(mom(root, "status", "--json").stdout)
    assert found["days"][1]["status"] == "stale"
    assert "no whitening_matrix" in found["days"][1]["reason"]
    assert found["settings"]["model"]["n_components"] == 3
    assert found["bytes"]["warehouse.duckdb"] > 0
    mom(root, "backfill", "--from", "2024-03-02", "--to", "2024-03-04", "--full")
    status = json.loads(mom(root, "status", "--json").stdout)["days"]
    assert [day["mode"] for day in status] == ["full"] * 4


def test_logs_that_ended_long_ago_go_on_today(root, tmp_path):
    """The days of the definitions end with the logs, and are those of the moment of a command."""
    shutil.copytree(root, tmp_path / "again")
    today = datetime.now(tz=UTC).date()
    late = tmp_path / "again" / "logs" / f"{today}.csv"
    late.write_text(f"user,item,timestamp\nuser-00001,jazz-001,{today}T00:00:00\n")
    assert f"{today}.\n" in mom(tmp_path / "again", "update").stdout


def test_a_day_outside_is_refused(root):
    message = mom(root, "update", "--day", "2023-01-01", code=2).stderr
    assert "none of the days of the pipeline" in message
    assert (
        "lies after"
        in mom(root, "backfill", "--from", "2024-03-02", "--to", "2024-03-01", code=2).stderr
    )


def test_a_bad_file_costs_its_own_day_and_is_said(root, tmp_path):
    folder = tmp_path / "bad"
    shutil.copytree(root / "logs", folder / "logs")
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    broken = folder / "logs" / "2024-03-02-broken.csv"
    broken.write_text("who,what\n1,2\n")
    for name in ("9999-12-31.csv", "0001-01-01.csv", b"2024-03-03-\xff.csv"):
        path = os.path.join(os.fsencode(folder / "logs"), os.fsencode(name))
        with open(path, "wb") as out:
            out.write(b"user,item,timestamp\n")
    done = mom(folder, "update")
    assert "Materialized 2024-03-01 to 2024-03-04" in done.stdout
    assert "2024-03-02 refused:" in done.stderr
    assert "2024-03-02-broken.csv has no column 'user'" in done.stderr
    for name in ("9999-12-31.csv", "0001-01-01.csv", "2024-03-03-\\xff.csv"):
        assert f"Set aside: {name}:" in done.stderr
    assert "In use: 2024-03-04-" in done.stdout
    shown = json.loads(mom(folder, "status", "--json").stdout)
    assert [day["status"] for day in shown["days"]] == ["fresh", "refused", "fresh", "fresh"]
    assert len(shown["set_aside"]) == 3
    assert "Nothing to compute. Days: 3 fresh, 1 refused." in mom(folder, "update").stdout
    broken.write_text("user,item,timestamp\nuser-00001,jazz-001,2024-03-02T10:00:00\n")
    assert "Materialized 2024-03-02 to 2024-03-04" in mom(folder, "update").stdout
    assert set(statuses(folder).values()) == {"fresh"}


def test_one_day_is_enough_for_an_answer(root, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "pipeline.toml").write_text(SETTINGS_FILE)
    (first,) = (root / "logs").glob("2024-03-01*")
    shutil.copy(first, tmp_path / "logs")
    assert "unproven" in mom(tmp_path, "update").stdout
    assert 'start_date = "2024-03-01"' in (tmp_path / "pipeline.toml").read_text()
    answer = mom(tmp_path, "recommend", "user-00001")
    assert "model 2024-03-01-" in answer.stdout
    assert "unproven" in mom(tmp_path, "models").stdout

    mom(tmp_path, "drop", "2024-03-01")
    assert "dropped" in mom(tmp_path, "accept", "2024-03-01").stdout
    assert "neither kept out nor dropped" in mom(tmp_path, "accept", "2024-03-01", code=1).stderr
    assert "brought no rows" in mom(tmp_path, "drop", "2024-05-01", code=1).stderr


def test_a_day_without_a_model_says_why(tmp_path):
    (tmp_path / "logs").mkdir()
    first = tmp_path / "logs" / "2024-03-01.csv"
    first.write_text("user,item,timestamp\nsomebody,something,2024-03-01T10:00:00\n")
    shown = mom(tmp_path, "update").stdout
    assert "No model is in use yet. 2024-03-01: too little yet" in shown
    assert "of 1 users and 1 items none passes the filters (matrix.min_item_users = 5" in shown
    assert "recommended" not in shown
    assert "says why not yet" in mom(tmp_path, "recommend", "somebody", code=1).stderr


def test_a_failed_update_says_what_is_in_use(root, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "pipeline.toml").write_text(SETTINGS_FILE)
    first, second = sorted((root / "logs").glob("2024-03-0[12].csv*"))
    shutil.copy(first, tmp_path / "logs")
    mom(tmp_path, "update")
    shutil.rmtree(tmp_path / "exports")
    (tmp_path / "exports").write_text("no folder")
    shutil.copy(second, tmp_path / "logs")
    failed = mom(tmp_path, "update", code=1)
    assert "recommendations failed" in failed.stderr
    assert "In use: 2024-03-01-" in failed.stdout
