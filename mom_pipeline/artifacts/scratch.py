"""Scratch folders of a process; and what killed processes left behind."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from mom_pipeline.core.files import is_running
from mom_pipeline.core.types import Array
from mom_pipeline.settings import Settings

# Temporary files as `temporary_path` names them, of DuckDB with its log, and scratch folders, each
# with its process. What others name in another way, `.NAME.<number>.tmp`, is theirs.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.(\d+)\.tmp(?:\.wal)?|\.new-(\d+)")
_SCRATCH = re.compile(r"[a-z]+-(\d+)")


@contextmanager
def scratch_folder(settings: Settings, work: str) -> Iterator[Path]:
    """A folder of this process; those that killed processes left behind are removed."""
    scratch = settings.scratch_dir.glob(f"{work}-*")
    _remove(path for path in scratch if _is_of_dead(_SCRATCH, path.name))
    folder = settings.scratch_dir / f"{work}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_array(settings: Settings, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array for rows of users: in memory, or in a file that goes when it does."""
    if not settings.engine.mapped or 0 in shape:
        return np.empty(shape, dtype)
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=settings.scratch_dir) as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def remove_left_behind(settings: Settings, *, of_duckdb: bool = False) -> int:
    """Remove temporary files of processes that have ended, and DuckDB's own; return how many."""
    found = list(settings.scratch_dir.glob("duckdb_temp*")) if of_duckdb else []
    for folder, folders, files in os.walk(settings.data_dir):
        names = (name for name in (*folders, *files) if _is_of_dead(_TEMPORARY, name))
        found += [Path(folder, name) for name in names]
    found += [path for path in settings.scratch_dir.glob("*") if _is_of_dead(_SCRATCH, path.name)]
    _remove(found)
    return len(found)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_of_dead(pattern: re.Pattern[str], name: str) -> bool:
    match = pattern.fullmatch(name)
    return match is not None and not is_running(int(match[match.lastindex or 0]))
