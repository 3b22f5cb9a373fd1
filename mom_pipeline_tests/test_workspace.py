"""`dagster dev` from the project root: Dagster itself loads `workspace.yaml`."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._cli.utils import get_possibly_temporary_instance_for_cli

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


def test_dagster_typed_in_the_checkout_finds_the_history_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `dagster dev` and `dagster-webserver` open it, without DAGSTER_HOME."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(ROOT / "dagster.yaml", checkout)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("MOM_DATA_DIR", "data")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with get_possibly_temporary_instance_for_cli() as instance:  # before any command
        assert instance.get_runs_count() == 0
    assert (checkout / "data" / "dagster_home").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("DAGSTER_HOME", "replaced below")
    prepare_dagster_home(load_settings())
    with dg.DagsterInstance.get() as instance:
        instance.create_run_for_job(nothing)
    monkeypatch.delenv("DAGSTER_HOME")
    assert another_home(load_settings()) == ""
    with get_possibly_temporary_instance_for_cli() as instance:
        assert [run.job_name for run in instance.get_runs()] == ["nothing"]
        assert instance.run_monitoring_enabled
    assert sorted(path.name for path in checkout.iterdir()) == ["dagster.yaml", "data"]
    own = yaml.safe_load((checkout / "data" / "dagster_home" / "dagster.yaml").read_text())
    assert yaml.safe_load((ROOT / "dagster.yaml").read_text()) == own


def test_dg_finds_the_same_code_location() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    project = tools["dg"]["project"]
    assert tools["dg"]["directory_type"] == "project"
    assert project["code_location_name"] == project["code_location_target_module"] == CODE_LOCATION
