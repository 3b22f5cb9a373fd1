"""demo, backfill, update and status, as typed."""

import json
import os
import shutil
import subprocess
import sys

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
    assert "All 4 days are fresh" in mom(root, "update").stdout

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


def test_a_day_outside_is_refused(root):
    message = mom(root, "update", "--day", "2023-01-01", code=2).stderr
    assert "none of the days of the pipeline" in message
    assert (
        "lies after"
        in mom(root, "backfill", "--from", "2024-03-02", "--to", "2024-03-01", code=2).stderr
    )


def test_a_bad_log_file_fails_the_run_with_its_name_and_status_remembers(root, tmp_path):
    folder = tmp_path / "bad"
    shutil.copytree(root / "logs", folder / "logs")
    (folder / "pipeline.toml").write_text(SETTINGS_FILE)
    (folder / "logs" / "2024-03-02-broken.csv").write_text("who,what\n1,2\n")
    message = mom(folder, "update", code=1).stderr
    assert "raw_logs failed" in message
    assert "2024-03-02-broken.csv" in message

    found = json.loads(mom(folder, "status", "--json").stdout)["days"]
    assert {day["status"] for day in found} == {"failed"}
    assert {day["reason"] for day in found} == {"raw_logs failed"}
    (folder / "logs" / "2024-03-02-broken.csv").unlink()
    mom(folder, "update")
    assert set(statuses(folder).values()) == {"fresh"}
