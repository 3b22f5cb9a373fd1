"""Files that are whole or not there."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mom_pipeline.core.files import (
    is_left_over,
    locked,
    replacing,
    temporary_path,
    write_text,
    writing,
)


def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "folder" / "a.txt"
    write_text(path, "before é")
    with pytest.raises(TypeError), writing(path) as out:
        out.writelines([b"half", "not bytes"])
    with pytest.raises(FileNotFoundError), replacing(path):
        pass  # nothing was written to the temporary name
    assert path.read_text(encoding="utf-8") == "before é"
    assert list(path.parent.iterdir()) == [path]


def test_writers_of_one_process_do_not_share_a_temporary_file(tmp_path):
    path = tmp_path / "a.txt"
    with writing(path) as first:
        first.write(b"first")
        with writing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"


def test_only_those_of_ended_processes_are_left_over(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = temporary_path(tmp_path / "a.txt")
    assert own.parent == tmp_path
    assert not is_left_over(own)
    assert is_left_over(own.with_name(own.name.replace(f".{os.getpid()}.", f".{ended.pid}.")))
    for name in ("a.txt", ".lock", f"a.{ended.pid}", ".tmp", ".a.x.tmp"):
        assert not is_left_over(tmp_path / name)


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    entered = threading.Event()

    def enter():
        with locked(tmp_path):
            entered.set()

    with locked(tmp_path):
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.2)
    thread.join(10)
    assert entered.is_set()


def test_the_bytes_are_on_disk_before_the_name_is(tmp_path, monkeypatch):
    """Otherwise a power cut leaves an empty file of the right name."""
    calls: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor):
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def renamed(path, target):
        calls.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write_text(tmp_path / "a.txt", "text")
    assert calls == ["file", "rename", "folder"]
