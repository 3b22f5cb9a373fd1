"""The commands of the logs, as a user types them."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mom_pipeline.cli.main import cli


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    def invoke(*arguments: str, **environment: str) -> Result:
        env = {"MOM_DATA_DIR": str(tmp_path / "data")} | environment
        return CliRunner().invoke(cli, arguments, env=env, catch_exceptions=False)

    return invoke


def write(tmp_path: Path, name: str, *lines: str) -> Path:
    path = tmp_path / "data" / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["user,item,timestamp", *lines]) + "\n")
    return path


def test_ingest_then_logs(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01", "b,x,2024-03-01")
    write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02")
    (tmp_path / "data/logs/notes.txt").touch()
    first = run("ingest")
    assert "2 files: 2 new, 0 replaced, 0 unchanged, 0 refused; 3 rows taken." in first.stdout
    assert "Set aside: notes.txt: it is not a log file: expected" in first.stderr
    assert "0 new, 0 replaced, 2 unchanged" in run("ingest").stdout
    shown = json.loads(run("logs", "--json").stdout)
    assert (shown["users"], shown["items"]) == (2, 2)
    assert [(d["day"], d["rows_accepted"], d["users"]) for d in shown["days"]] == [
        ("2024-03-01", 2, 2),
        ("2024-03-02", 1, 1),
    ]
    assert "2024-03-02" in run("logs").stdout


def test_a_refused_file_is_exit_code_1_and_the_others_are_taken(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01", "bad")
    write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02")
    result = run("ingest", "--json")
    assert result.exit_code == 1
    assert [r["status"] for r in json.loads(result.stdout)] == ["refused", "new"]
    result = run("ingest", MOM_LOGS__MAX_REJECT_SHARE="1")
    assert result.exit_code == 0
    quarantined = json.loads(run("logs", "--day", "2024-03-01", "--json").stdout)["quarantine"]
    assert [(q["line"], q["text"]) for q in quarantined] == [(3, "bad")]


@pytest.mark.parametrize(
    ("name", "shown", "rows"),
    [
        ("9999-12-31.csv", "9999-12-31.csv: the delivery day", 2),
        ("0001-01-01.csv", "0001-01-01.csv: the delivery day", 2),
        ("2024-03-02-\udcff.csv", r"2024-03-02-\xff.csv: expected", 2),
        ("2024-03-02-\x1b[2J\n.csv", r"2024-03-02-\x1b[2J\n.csv: expected", 2),
        ("2024-03-01.tsv", "2024-03-01.tsv: it would bring the same events as 2024-03-01.csv", 1),
    ],
)
def test_a_name_stops_no_other_file(  # type: ignore[no-untyped-def]
    run, tmp_path: Path, name: str, shown: str, rows: int
) -> None:
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01")
    write(tmp_path, "like markup[/2024-03-04-b].csv", "a,y,2024-03-04")
    write(tmp_path, name, "a,z,2024-03-02")
    result = run("ingest")
    assert result.exit_code == 0
    assert f"Set aside: {shown}" in result.stderr
    assert f"{rows} new" in result.stdout
    assert len(json.loads(run("ingest", "--json").stdout)) == rows


def test_a_folder_of_other_names_alone_says_so(tmp_path: Path) -> None:
    for number in range(25):
        write(tmp_path, f"{number}.csv", "a,x,2024-03-01")
    result = CliRunner().invoke(cli, ["ingest"], env={"MOM_DATA_DIR": str(tmp_path / "data")})
    assert "no log file in" in str(result.exception)
    assert result.stderr.count("states no delivery day") == 20
    assert "Set aside: 5 more names." in result.stderr


def test_a_file_that_was_cut_short_is_refused_until_its_checksum_confirms_it(  # type: ignore[no-untyped-def]
    run, tmp_path: Path
) -> None:
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01")
    path = write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02", "b,y,2024-03-02")
    path.write_bytes(path.read_bytes()[:-8])  # "b,y,2024" would be read as a bad line, or worse
    cut = run("ingest")
    assert cut.exit_code == 1
    assert "Refused: " in cut.stderr
    assert "2024-03-02.csv may have been cut short: expected a line end" in cut.stderr
    assert "put 2024-03-02.csv.sha256 beside it" in cut.stderr
    assert "1 new, 0 replaced, 0 unchanged, 1 refused" in cut.stdout
    path.write_text("user,item,timestamp\na,y,2024-03-02")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name("2024-03-02.csv.sha256").write_text(f"{sha256}  2024-03-02.csv\n")
    assert "1 new, 0 replaced, 1 unchanged, 0 refused" in run("ingest").stdout


def test_a_checksum_can_be_asked_for(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01")
    refused = run("ingest", MOM_LOGS__REQUIRE_CHECKSUM="true")
    assert refused.exit_code == 1
    assert "has no 2024-03-01.csv.sha256 beside it, which logs.require_checksum" in refused.stderr
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name("2024-03-01.csv.sha256").write_text(f"{sha256}  2024-03-01.csv\n")
    assert "1 new" in run("ingest", MOM_LOGS__REQUIRE_CHECKSUM="true").stdout


def test_ingest_of_a_day_or_of_files(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, "2024-03-01.csv", "a,x,2024-03-01")
    path = write(tmp_path, "2024-03-02.csv", "a,y,2024-03-02")
    for arguments, name in [(("--day", "2024-03-01"), "2024-03-01.csv"), ((str(path),), path.name)]:
        result = run("ingest", "--json", *arguments)
        assert [(r["file"], r["status"]) for r in json.loads(result.stdout)] == [(name, "new")]
    assert run("ingest", "--day", "2024-03-01", str(path)).exit_code == 2


def test_rich_markup_in_a_log_is_shown_as_text(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    write(tmp_path, "2024-03-01.csv", "[red]a[/x],x,never")
    run("ingest", MOM_LOGS__MAX_REJECT_SHARE="1")
    assert "[red]a[/x],x,never" in run("logs", "--day", "2024-03-01").stdout


def test_import_then_ingest(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    raw = tmp_path / "ratings.csv"
    raw.write_text("who,what,when\na,x,2024-03-01\na,y,2024-03-02\n")
    columns = ["--user", "who", "--item", "what", "--timestamp", "when"]
    summary = json.loads(run("import", "csv", str(raw), "--json", *columns).stdout)
    assert (summary["rows"], summary["days"]) == (2, 2)
    assert "2 new" in run("ingest").stdout
    raw.write_text("who,what,when\na,x,2024-03-01\na,y,2024-03-02")
    again = run("import", "csv", str(raw), *columns)
    assert "Next: mom-pipeline update" in again.stdout
    assert "Taken: the last line of ratings.csv has no line end" in again.stderr
    assert "2 unchanged" in run("ingest").stdout


def test_simulate_and_ingest_as_it_arrives(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    size = ["--days", "3", "--users", "30", "--items", "20", "--events", "50"]
    assert "deliveries" in run("simulate", *size, "--ingest").stdout
    assert len(json.loads(run("logs", "--json").stdout)["days"]) == 3
    assert "3 unchanged" in run("ingest").stdout
    assert run("simulate", *size, "--overwrite").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logs"], "run `mom-pipeline ingest` first"),
        (["ingest"], "no log file in"),
        (["ingest", "--day", "2024-03-01"], "no log file of 2024-03-01 in"),
        (["ingest", "nowhere.csv"], "is not a file"),
    ],
)
def test_an_error_is_one_message_and_exit_code_1(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Through the real entry point: no traceback, nothing on standard output."""
    call = "from mom_pipeline.cli.main import main; main()"
    environment = os.environ | {"MOM_DATA_DIR": str(tmp_path / "data")}
    result = subprocess.run(
        [sys.executable, "-c", call, *arguments], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["simulate", "import", "ingest", "logs", "bench"])
def test_help_is_there(run, command: str) -> None:  # type: ignore[no-untyped-def]
    shown = run(command, "--help").stdout
    assert "Usage:" in shown
    assert "\\b" not in shown
    assert command in run("--help").stdout


@pytest.mark.parametrize(
    "arguments", [["ingest", "--rows", "1000"], ["matrix", "--pairs", "20000"]]
)
def test_the_benches_print_their_ratio(run, arguments: list[str]) -> None:  # type: ignore[no-untyped-def]
    result = json.loads(run("bench", *arguments, "--repeats", "1", "--json").stdout)
    assert result["ratio"] > 0
    assert result["cpu_ratio"] > 0
