"""`dagster dev` from the project root: Dagster itself loads `workspace.yaml`."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest

from mom_pipeline.dagster_home import CODE_LOCATION, another_home, prepare_dagster_home
from mom_pipeline.settings import load_settings

ROOT = Path(__file__).parents[1]


@dg.job
def nothing() -> None:
    """A job to make a run of."""


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


def test_another_history_is_said_in_one_line(tmp_path: Path) -> None:
    done = validate(ROOT, tmp_path / "home", "-w", "workspace.yaml")
    own = tmp_path / "home" / "dagster_home"
    assert f"export DAGSTER_HOME={own} to see them" in done.stderr + done.stdout


def test_no_history_at_all_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `dagster-webserver` opens it: without DAGSTER_HOME."""
    settings = load_settings(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    own = tmp_path / "dagster_home"
    assert f"not set, and the runs of mom-pipeline are in {own}" in another_home(settings)
    monkeypatch.setenv("DAGSTER_HOME", "replaced below")
    prepare_dagster_home(settings)
    assert another_home(settings) == ""


def test_dg_finds_the_same_code_location() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    project = tools["dg"]["project"]
    assert tools["dg"]["directory_type"] == "project"
    assert project["code_location_name"] == project["code_location_target_module"] == CODE_LOCATION
