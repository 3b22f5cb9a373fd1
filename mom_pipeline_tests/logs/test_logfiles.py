"""Names of log files."""

from datetime import date
from pathlib import Path

import pytest

from mom_pipeline.errors import LogFileError
from mom_pipeline.logs.logfiles import discover, log_file


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


@pytest.mark.parametrize(
    ("name", "format_name", "compressed"),
    [
        ("2024-03-01.csv", "csv", False),
        ("2024-03-01.csv.gz", "csv", True),
        ("2024-03-01.tsv", "tsv", False),
        ("2024-03-01.jsonl.gz", "jsonl", True),
        ("2024-03-01-part_2.jsonl", "jsonl", False),
        ("day=2024-03-01/anything.parquet", "parquet", False),
        ("shop/day=2024-03-01/x.csv", "csv", False),
    ],
)
def test_known_names(tmp_path: Path, name: str, format_name: str, compressed: bool) -> None:
    touch(tmp_path, name)
    file = log_file(tmp_path / name, tmp_path)
    assert (file.day, file.format, file.compressed) == (date(2024, 3, 1), format_name, compressed)
    assert file.source_file == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2024-03-01.txt", "is not a log file"),
        ("2024-03-01.parquet.gz", "is not a log file"),
        ("2024-02-30.csv", "names no delivery day"),
        ("20240301.csv", "names no delivery day"),
        ("2024-03-011.csv", "names no delivery day"),
        ("log.csv", "names no delivery day"),
    ],
)
def test_other_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    touch(tmp_path, name)
    with pytest.raises(LogFileError, match=message):
        log_file(tmp_path / name, tmp_path)


def test_files_elsewhere_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "2024-03-01.csv", "logs/2024-03-01.csv")
    with pytest.raises(LogFileError, match="lies outside"):
        log_file(tmp_path / "logs/../2024-03-01.csv", tmp_path / "logs")
    with pytest.raises(LogFileError, match="is not a file"):
        log_file(tmp_path / "logs/2024-03-02.csv", tmp_path / "logs")


def test_discovery_orders_by_day_and_reports_what_it_ignores(tmp_path: Path) -> None:
    touch(
        tmp_path, "2024-03-02.csv", "day=2024-03-01/b.parquet", "day=2024-03-01/a.csv",
        "notes.txt", ".hidden.csv", "_tmp/2024-03-01.csv", "2024-03-02.csv.sha256",
    )  # fmt: skip
    found = discover(tmp_path)
    names = ["day=2024-03-01/a.csv", "day=2024-03-01/b.parquet", "2024-03-02.csv"]
    assert [file.source_file for file in found.files] == names
    assert found.ignored == ("notes.txt",)


def test_two_formats_of_one_file_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "2024-03-01.csv", "2024-03-01.csv.gz")
    with pytest.raises(LogFileError, match="would bring the same events twice"):
        discover(tmp_path)


def test_no_folder_holds_no_files(tmp_path: Path) -> None:
    assert discover(tmp_path / "none").files == ()
