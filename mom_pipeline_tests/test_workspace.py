"""`dagster dev` from the project root: Dagster itself loads `workspace.yaml`."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from mom_pipeline.dagster_home import CODE_LOCATION

ROOT = Path(__file__).parents[1]


def test_the_workspace_holds_the_code_location_under_its_name(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path), "MOM_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = f"Validation successful for code location {CODE_LOCATION}."
    assert said in done.stderr + done.stdout


def test_dg_finds_the_same_code_location() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    project = tools["dg"]["project"]
    assert tools["dg"]["directory_type"] == "project"
    assert project["code_location_name"] == project["code_location_target_module"] == CODE_LOCATION
