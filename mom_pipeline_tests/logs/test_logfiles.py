"""Names of log files."""

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mom_pipeline.logs.logfiles import discover, printable


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
    [file] = discover(touch(tmp_path, name)).files
    assert (file.day, file.format, file.compressed) == (date(2024, 3, 1), format_name, compressed)
    assert file.source_file == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2024-03-01.txt", "is not a log file"),
        ("2024-03-01.parquet.gz", "is not a log file"),
        ("2024-02-30.csv", "states no delivery day"),
        ("20240301.csv", "states no delivery day"),
        ("2024-03-011.csv", "states no delivery day"),
        ("２０２４-03-01.csv", "states no delivery day"),
        ("log.csv", "states no delivery day"),
        ("9999-12-31.csv", "9999-12-31 does not lie from 1970-01-01 to 2199-12-31"),
        ("2200-01-01.csv", "2200-01-01 does not lie from"),
        ("1969-12-31.csv", "1969-12-31 does not lie from"),
        ("0001-01-01.csv", "0001-01-01 does not lie from"),
        ("day=0001-01-01/part.csv", "0001-01-01 does not lie from"),
        ("2024-03-01-a\nb.csv", "expected a name of printable UTF-8"),
        ("2024-03-01-\x1b[31m.csv", "expected a name of printable UTF-8"),
        ("2024-03-01-\u202e.csv", "expected a name of printable UTF-8"),
        ("2024-03-01-\udcff.csv", "expected a name of printable UTF-8"),
        ("shop-\udcff/2024-03-01.csv", "expected a name of printable UTF-8"),
        (f"2024-03-01-{'x' * 240}.csv", "has 255 bytes, expected at most 200"),
    ],
)
def test_other_names_are_set_aside_and_say_why(tmp_path: Path, name: str, message: str) -> None:
    touch(tmp_path, name, "2024-03-02.csv")
    result = discover(tmp_path)
    assert [file.source_file for file in result.files] == ["2024-03-02.csv"]
    (aside,) = result.set_aside
    assert message in aside.reason
    assert aside.reason.isprintable()
    assert aside.name == printable(name)
    assert json.dumps([aside.name, aside.reason], ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "name", ["1970-01-01.csv", "2199-12-31.csv", f"2024-03-01-{'x' * 185}.csv"]
)
def test_names_at_the_limits_are_logs(tmp_path: Path, name: str) -> None:
    touch(tmp_path, name)
    assert [file.source_file for file in discover(tmp_path).files] == [name]


def test_bytes_that_are_not_utf_8_are_shown_as_such() -> None:
    assert printable("a\udcff\x1b\n é") == r"a\xff\x1b\n é"


@given(st.sets(st.binary(max_size=40).filter(lambda name: not {*b"/\0"} & {*name}), max_size=5))
def test_no_bytes_of_a_name_stop_the_others(names: set[bytes]) -> None:
    with TemporaryDirectory() as folder:
        root = touch(Path(folder), "2024-03-02.csv")
        for name in names:
            (root / os.fsdecode(b"2024-03-01-" + name + b".csv")).touch()
        result = discover(root)
        assert "2024-03-02.csv" in [file.source_file for file in result.files]
        assert len(result.files) + len(result.set_aside) == 1 + len(names)
        for aside in result.set_aside:
            assert (aside.name + aside.reason).isprintable()


def test_discovery_orders_by_day_and_reports_what_it_does_not_read(tmp_path: Path) -> None:
    touch(
        tmp_path, "2024-03-02.csv", "day=2024-03-01/b.parquet", "day=2024-03-01/a.csv",
        "notes.txt", ".hidden.csv", "_tmp/2024-03-01.csv", "2024-03-02.csv.sha256",
    )  # fmt: skip
    result = discover(tmp_path)
    names = ["day=2024-03-01/a.csv", "day=2024-03-01/b.parquet", "2024-03-02.csv"]
    assert [file.source_file for file in result.files] == names
    assert [aside.name for aside in result.set_aside] == ["notes.txt"]


def test_files_that_differ_only_in_format_are_set_aside_and_name_each_other(tmp_path: Path) -> None:
    touch(tmp_path, "2024-03-01.csv", "2024-03-01.csv.gz", "2024-03-01.jsonl", "2024-03-02.csv")
    result = discover(tmp_path)
    assert [file.source_file for file in result.files] == ["2024-03-02.csv"]
    first, second, third = result.set_aside
    assert first.name == "2024-03-01.csv"
    assert "the same events as 2024-03-01.csv.gz, 2024-03-01.jsonl," in first.reason
    assert "the same events as 2024-03-01.csv, 2024-03-01.jsonl," in second.reason
    assert "the same events as 2024-03-01.csv, 2024-03-01.csv.gz," in third.reason


def test_links_and_pipes_are_set_aside(tmp_path: Path) -> None:
    logs = touch(tmp_path / "logs", "2024-03-01.csv", ".kept/2024-03-09.csv")
    touch(tmp_path, "2024-03-02.csv")
    os.mkfifo(logs / "2024-03-03.csv")
    for name, target in {
        "2024-03-02.csv": "../2024-03-02.csv",
        "2024-03-04.csv": "nowhere.csv",
        "2024-03-05.csv": "2024-03-05.csv",
        "2024-03-06.csv": "2024-03-01.csv",
        "2024-03-07": "..",
        "2024-03-08": ".kept",
        "2024-03-09.csv": ".kept/2024-03-09.csv",
    }.items():
        (logs / name).symlink_to(target)
    result = discover(logs)
    names = ["2024-03-01.csv", ".kept/2024-03-09.csv"]
    assert [file.source_file for file in result.files] == names
    assert [(aside.name, aside.reason.split(";")[0]) for aside in result.set_aside] == [
        ("2024-03-02.csv", "the link leads out of the folder"),
        ("2024-03-03.csv", "expected a regular file that can be read"),
        ("2024-03-04.csv", "the link leads nowhere"),
        ("2024-03-05.csv", "the link leads nowhere"),
        ("2024-03-06.csv", "the link leads to 2024-03-01.csv, which is read itself"),
        ("2024-03-07", "the link leads out of the folder"),
        ("2024-03-08", "the link leads to no regular file"),
    ]


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that the user "nobody" owns; root reads everything, so it becomes nobody."""
    with TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


def test_a_folder_that_cannot_be_read_is_set_aside(as_nobody: Path) -> None:
    touch(as_nobody, "2024-03-01.csv", "closed/2024-03-02.csv", "listed/2024-03-03.csv")
    (as_nobody / "closed").chmod(0o000)
    (as_nobody / "listed").chmod(0o400)
    try:
        result = discover(as_nobody)
    finally:
        for name in ("closed", "listed"):
            (as_nobody / name).chmod(0o700)
    assert [file.source_file for file in result.files] == ["2024-03-01.csv"]
    assert [(aside.name, aside.reason) for aside in result.set_aside] == [
        (
            "closed/",
            "the folder cannot be read (Permission denied); allow it, or move its files",
        ),
        (
            "listed/2024-03-03.csv",
            "expected a regular file that can be read; replace or remove it",
        ),
    ]


def test_a_folder_deeper_than_any_path_is_set_aside(tmp_path: Path) -> None:
    touch(tmp_path, "2024-03-01.csv")
    name, parents = "d" * 200, []
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=at)
        parents.append(at)
        at = os.open(name, os.O_RDONLY, dir_fd=at)
    os.close(at)
    result = discover(tmp_path)
    for parent in reversed(parents):  # pytest could not remove it either
        os.rmdir(name, dir_fd=parent)
        os.close(parent)
    assert [file.source_file for file in result.files] == ["2024-03-01.csv"]
    (aside,) = result.set_aside
    assert "cannot be read (File name too long)" in aside.reason
    assert len(aside.name) < 400


def test_no_folder_holds_no_files(tmp_path: Path) -> None:
    assert discover(tmp_path / "none").files == ()
