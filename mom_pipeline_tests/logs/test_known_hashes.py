"""Files that were read before are not read again, and a changed one always is."""

import os
from pathlib import Path

import pytest

from mom_pipeline.core.files import sha256_of
from mom_pipeline.logs import known_hashes as module
from mom_pipeline.logs.ingest import pending_files
from mom_pipeline.logs.known_hashes import known_hashes
from mom_pipeline_tests.data_folder import DataFolder

LINES = "user,item,timestamp\na,x,2024-03-01T10:00:00\n"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read."""
    files: list[Path] = []

    def note(path: Path) -> str:
        files.append(path)
        return sha256_of(path)

    monkeypatch.setattr(module, "sha256_of", note)
    return files


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file was changed long enough ago."""
    monkeypatch.setattr(module, "CLOCK_STEP_SECONDS", -3600.0)


def copied(folder: DataFolder) -> None:
    """Copies and restored backups have other times than when they were ingested."""
    for path in folder.settings.logs_dir.glob("*"):
        os.utime(path)


@pytest.mark.usefixtures("settled")
def test_each_log_file_is_read_once(folder: DataFolder, read: list[Path]) -> None:
    folder.take_all((f"2024-03-0{n}.csv", LINES) for n in range(1, 6))
    copied(folder)
    assert pending_files(folder.warehouse) == []
    assert len(read) == 5
    for _ in range(3):
        assert pending_files(folder.warehouse) == []
    assert len(read) == 5


@pytest.mark.usefixtures("settled")
def test_a_refused_file_is_read_once(folder: DataFolder, read: list[Path]) -> None:
    from mom_pipeline.logs.ingest import ingest_files
    from mom_pipeline.logs.logfiles import log_file

    path = folder.write("2024-03-01.csv", "who,what\na,x\n")
    list(ingest_files(folder.warehouse, [log_file(path, folder.settings.logs_dir)]))
    for _ in range(3):
        assert pending_files(folder.warehouse) == []
    assert read == [path]
    path.write_text(LINES)
    assert [file.path for file in pending_files(folder.warehouse)] == [path]


@pytest.mark.usefixtures("settled")
def test_a_change_of_the_same_size_is_seen(folder: DataFolder, read: list[Path]) -> None:
    folder.take(LINES)
    copied(folder)
    assert pending_files(folder.warehouse) == []
    path = folder.write("2024-03-01.csv", LINES.replace("a,x", "b,y"))
    os.utime(path, ns=(0, 0))  # a copy that keeps the time of the original
    assert [file.path for file in pending_files(folder.warehouse)] == [path]


def test_a_file_that_was_just_changed_is_not_trusted(folder: DataFolder, read: list[Path]) -> None:
    path = folder.write("2024-03-01.csv", LINES)
    os.utime(path, (2e9, 2e9))
    for _ in range(2):
        with known_hashes(folder.settings) as hash_of:
            hash_of(path)
    assert read == [path, path]


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', "\x00"])
def test_what_was_remembered_may_be_damaged(
    folder: DataFolder, read: list[Path], damage: str
) -> None:
    path = folder.write("2024-03-01.csv", LINES)
    with known_hashes(folder.settings) as hash_of:
        expected = hash_of(path)
    (folder.settings.scratch_dir / module._FILE).write_text(damage)
    with known_hashes(folder.settings) as hash_of:
        assert hash_of(path) == expected
    assert read == [path, path]
