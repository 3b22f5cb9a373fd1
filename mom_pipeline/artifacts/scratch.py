"""Scratch folders of a process; those of killed processes are removed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mom_pipeline.core.files import is_running
from mom_pipeline.settings import Settings


@contextmanager
def scratch_folder(settings: Settings, work: str) -> Iterator[Path]:
    """A folder of this process; those that killed processes left behind are removed."""
    for left_over in settings.scratch_dir.glob(f"{work}-*"):
        if not is_running(int(left_over.name.rpartition("-")[2])):
            shutil.rmtree(left_over, ignore_errors=True)
    folder = settings.scratch_dir / f"{work}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
