"""`dagster dev` from the project root: Dagster itself loads `workspace.yaml`."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mom_pipeline.dagster_home import CODE_LOCATION

ROOT = Path(__file__).parents[1]


def validate(folder: Path, home: Path, *target: str) -> subprocess.CompletedProcess[str]:
    home.mkdir()
    return subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", *target],
        cwd=folder,
        env={**os.environ, "DAGSTER_HOME": str(home), "MOM_DATA_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("target", [("-w", "workspace.yaml"), ("-m", CODE_LOCATION)])
def test_the_code_location_has_one_name_however_it_is_loaded(
    tmp_path: Path, target: tuple[str, str]
) -> None:
    done = validate(ROOT, tmp_path / "home", *target)
    assert done.returncode == 0, done.stderr
    said = f"Validation successful for code location {CODE_LOCATION}."
    assert said in done.stderr + done.stdout


def test_dg_finds_the_same_code_location() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    project = tools["dg"]["project"]
    assert tools["dg"]["directory_type"] == "project"
    assert project["code_location_name"] == project["code_location_target_module"] == CODE_LOCATION
