"""`simulate`, `import` and `logs`, and deliveries that are refused or set aside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mom_pipeline.cli.run import ingest_new
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import SIZES


def write(tmp_path: Path, name: str, *lines: str) -> Path:
    path = tmp_path / "data" / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["user,item,timestamp", *lines]) + "\n")
    return path


@pytest.fixture
def ingest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """What `compare` and `tune` do first; the lines that it says."""

    def invoke(**variables: str) -> str:
        ingest_new(load_settings(tmp_path / "data", variables))
        return capsys.readouterr().err

    return invoke


def days(run) -> dict[str, int]:  # type: ignore[no-untyped-def]
    return {day["day"]: day["rows_accepted"] for day in run("logs", "--json").json["days"]}


def test_new_files_are_ingested_and_shown(run, ingest, tmp_path):
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01", "b,x,2024-03-01")
    write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02")
    write(tmp_path, "like markup[/2024-03-04-b].csv", "a,y,2024-03-04")
    for name in ("notes.txt", "9999-12-31.csv", "2024-03-02-\udcff.csv"):
        write(tmp_path, name, "a,z,2024-03-02")
    ingest()
    assert days(run) == {"2024-03-01": 2, "2024-03-02": 1, "2024-03-04": 1}
    shown = run("logs", "--json").json
    assert (shown["users"], shown["items"]) == (2, 2)
    assert "2024-03-02" in run("logs").stdout
    write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02", "c,y,2024-03-02")
    ingest()
    assert days(run)["2024-03-02"] == 2


def test_a_refused_file_stops_no_other(run, ingest, tmp_path):
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01", "[red]b[/x]")
    write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02")
    said = ingest()
    assert said.count("Refused: ") == 1
    assert days(run) == {"2024-03-02": 1}
    ingest(MOM_LOGS__MAX_REJECT_SHARE="1")
    quarantined = run("logs", "--day", "2024-03-01", "--json").json["quarantine"]
    assert [(q["line"], q["text"]) for q in quarantined] == [(3, "[red]b[/x]")]
    assert "[red]b[/x]" in run("logs", "--day", "2024-03-01").stdout  # text, no markup


def test_a_folder_of_other_names_alone_says_so(run, tmp_path):
    for number in range(25):
        write(tmp_path, f"{number}.csv", "a,x,2024-03-01")
    done = run("update")
    assert "There is no log file to compute" in done.stdout
    assert done.stderr.count("states no delivery day") == 20
    assert "5 more: see `mom-pipeline status --days`" in done.stderr
    short = run("status")
    assert len((short.stdout + short.stderr).splitlines()) <= 10
    assert run("status", "--days").stdout.count("states no delivery day") == 25


def test_import_then_logs(run, ingest, tmp_path):
    raw = tmp_path / "ratings.csv"
    raw.write_text("who,what,when\na,x,2024-03-01\na,y,2024-03-02\n")
    columns = ["--user", "who", "--item", "what", "--timestamp", "when"]
    summary = run("import", "csv", str(raw), "--json", *columns).json
    assert (summary["rows"], summary["days"]) == (2, 2)
    ingest()
    assert days(run) == {"2024-03-01": 1, "2024-03-02": 1}
    raw.write_text("who,what,when\na,x,2024-03-01\na,y,2024-03-02")
    again = run("import", "csv", str(raw), *columns)
    assert "Next: mom-pipeline update" in again.stdout
    assert "Imported: the last line of ratings.csv has no line end" in again.stderr


def test_simulate_writes_into_an_empty_folder_only(run, tmp_path):
    assert "4 days of sample logs" in run("simulate", *SIZES).stdout
    assert len(list((tmp_path / "data" / "logs").iterdir())) == 4
    assert "already holds 4 log files" in run("simulate", *SIZES, code=1).stderr


def test_an_error_is_one_message_and_exit_code_1(tmp_path):
    """Through the real entry point: no traceback, nothing on standard output."""
    result = subprocess.run(
        [sys.executable, "-c", "from mom_pipeline.cli.main import main; main()", "logs"],
        capture_output=True,
        text=True,
        env=os.environ | {"MOM_DATA_DIR": str(tmp_path / "data")},
        check=False,
    )
    assert result.returncode == 1
    assert "run `mom-pipeline update` first" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
