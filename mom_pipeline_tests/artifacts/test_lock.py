"""The lock of a data folder, with real processes; what dead ones left; who may read."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mom_pipeline.artifacts.lock import LOCK, writer_of, writing_to
from mom_pipeline.core.files import temporary_path, write_text
from mom_pipeline.errors import DataFolderBusy, DataFolderClosed
from mom_pipeline.settings import Settings, load_settings

_HOLD = (
    "import sys, os\n"
    "from pathlib import Path\n"
    "from mom_pipeline.artifacts.lock import writing_to\n"
    "from mom_pipeline.settings import load_settings\n"
    "with writing_to(load_settings(Path(sys.argv[1]), {}), 'mom-pipeline update'):\n"
    "    if len(sys.argv) > 2 and os.fork() == 0:\n"
    "        print('held', flush=True); sys.stdin.read()\n"
    "    elif len(sys.argv) == 2:\n"
    "        print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@contextmanager
def holder(folder: Path, *forks: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock; with `forks`, it has a child that lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder), *forks],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(tmp_path / "data", {})


def test_one_process_writes_and_the_others_know_who_and_since_when(settings: Settings):
    assert writer_of(settings) == ""
    with holder(settings.data_dir) as process:
        who = rf"mom-pipeline update \(process {process.pid}\) since 20\d\d-"
        with pytest.raises(DataFolderBusy, match=who), writing_to(settings, "erase"):
            pass
        assert str(process.pid) in writer_of(settings)
        told: list[str] = []
        done = threading.Event()

        def wait() -> None:
            with writing_to(settings, "second", waiting=told.append):
                done.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not done.wait(0.5)
        process.send_signal(signal.SIGKILL)
        thread.join(30)
    assert done.is_set()
    assert len(told) == 1
    assert told[0].startswith(f"Waiting for mom-pipeline update (process {process.pid}) since")
    assert writer_of(settings) == ""


def test_a_killed_process_does_not_stand_in_the_way_nor_does_its_child(settings: Settings):
    with holder(settings.data_dir, "forks") as process:
        with pytest.raises(DataFolderBusy), writing_to(settings, "erase"):
            pass
        process.kill()
        process.wait()  # its child lives until the pipe is closed
        with writing_to(settings, "erase"), writing_to(settings, "a step of it"):
            assert f"erase (process {os.getpid()})" in writer_of(settings)


def test_temporary_files_of_dead_processes_go_and_those_of_living_ones_stay(settings: Settings):
    ended = subprocess.Popen(["true"])
    ended.wait()
    data, own = settings.data_dir, str(os.getpid())
    made = [
        temporary_path(data / "logs" / "2024-03-01.csv"),
        temporary_path(data / "exports" / "recommendations" / "2024-03-01.parquet"),
        temporary_path(data / "models" / "versions" / "new") / "model.npz",
        temporary_path(data / "artifacts" / "anchor" / "new") / "basis.npz",
        temporary_path(data / "warehouse.duckdb").with_suffix(".tmp.wal"),
        temporary_path(data / "dagster_home" / "dagster.yaml"),
        temporary_path(data / "pipeline.toml"),
        data / "tmp" / f"ingest-{own}" / "1.lines",
    ]
    dead = [Path(str(path).replace(own, str(ended.pid))) for path in made]
    made += [data / "logs" / f".2024-03-02.csv.{ended.pid}.tmp"]  # of somebody else (R12)
    for path in [*made, *dead]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with writing_to(settings, "update"):
        assert [path for path in dead if path.exists()] == []
        assert [path for path in made if not path.exists()] == []


def open_to_others(folder: Path) -> set[str]:
    """What somebody else could read; below a closed folder nothing is reached."""
    entries = {path.relative_to(folder) for path in folder.rglob("*")}
    return {str(p) for p in entries if (folder / p).stat().st_mode & 0o077 and p.name != LOCK}


def test_what_holds_ids_is_the_owners_alone_also_what_an_earlier_version_wrote(settings: Settings):
    before = os.umask(0o022)
    try:
        names = ("models/versions/a/people.npz", "erasures/salt", "exports/a.parquet")
        for name in (*names, "warehouse.duckdb", "logs/2024-03-01.csv", "pipeline.toml"):
            write_text(settings.data_dir / name, "user-00001")
        assert open_to_others(settings.data_dir) >= set(names)
        with writing_to(settings, "update"):
            write_text(settings.reports_dir / "2024-03-01.html", "user-00001")
        assert open_to_others(settings.data_dir) == {"logs", "logs/2024-03-01.csv", "pipeline.toml"}
        mode = (settings.data_dir / "erasures" / "salt").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    finally:
        os.umask(before)


def test_a_folder_that_cannot_be_written_to_is_said_in_one_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataFolderClosed, match="cannot be written to: Not a directory"),
        writing_to(load_settings(tmp_path / "file" / "data", {}), "update"),
    ):
        pass
