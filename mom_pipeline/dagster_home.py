"""Dagster's home below the data folder, without importing Dagster, which takes long."""

import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path

from mom_pipeline.core.files import write_text
from mom_pipeline.settings import Settings

# The name of the code location, however it is loaded: that which `-m` gives it.
CODE_LOCATION = "mom_pipeline.definitions"
_OURS = "# Written by mom-pipeline"
CONFIGURATION = files("mom_pipeline").joinpath("dagster.yaml").read_text(encoding="utf-8")
# An older version stored its history by a class of its own, with ids of people in places.
_OLD_STORAGE = "mom_pipeline.dagster_storage"
_HISTORY = ("history", "schedules", "storage")


def prepare_dagster_home(settings: Settings) -> Path:
    """Write `dagster.yaml` where there is none but ours, and point DAGSTER_HOME at its folder."""
    home = (settings.data_dir / "dagster_home").resolve()
    path = home / "dagster.yaml"
    found = path.read_text("utf-8", "replace") if path.exists() else _OURS
    if not found.startswith(_OURS):
        _say(f"{path} is not of mom-pipeline: Dagster uses it, and it stays as it is.")
    elif found != CONFIGURATION:
        if _OLD_STORAGE in found:
            for name in _HISTORY:
                shutil.rmtree(home / name, ignore_errors=True)
            _say("Dagster's history is of an older version and begins anew, its schedules too.")
        write_text(path, CONFIGURATION)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def _say(line: str) -> None:
    print(line, file=sys.stderr)
