"""`tune` on a few days of small logs."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import cli
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.settings import load_settings
from mom_pipeline_tests.cli.conftest import SETTINGS_FILE, SIZES, mom


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    (folder / "pipeline.toml").write_text(
        SETTINGS_FILE.replace("n_components = 3", "n_components = 1  # K")
    )
    mom(folder, "simulate", *SIZES, "--first-day", "2024-03-01")
    return folder


@pytest.fixture
def root(simulated, tmp_path):
    """A copy for each test: `tune` writes settings."""
    return Path(shutil.copytree(simulated, tmp_path / "data"))


@pytest.fixture
def run(root, monkeypatch):
    monkeypatch.setenv("MOM_DATA_DIR", str(root))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(cli, ["tune", "--components", "2,3", *arguments])


def test_it_says_what_it_would_write_and_writes_when_told(run, root):
    before = (root / "pipeline.toml").read_text()
    found = run()
    assert found.exit_code == 0, found.output
    assert "`--write` would put into" in found.output
    assert "model.n_components = 3" in found.output
    assert "chosen" in found.output
    assert (root / "pipeline.toml").read_text() == before
    assert (root / "reports" / "tuning.svg").read_bytes().startswith(b"<svg")

    told = json.loads(run("--json", "--write").stdout)
    assert told["written"]
    assert told["changes"]["model.n_components"] == 3
    assert {t["model.n_components"] for t in told["trials"]} == {1, 2, 3}
    settings = load_settings(root, {})
    assert settings.model.n_components == 3
    assert settings.model.personalization == told["choice"]["model.personalization"]
    assert "# K" in (root / "pipeline.toml").read_text()

    again = json.loads(run("--json", "--write").stdout)
    assert "model.n_components" not in again["changes"]


def test_an_overriding_variable_is_named(run, monkeypatch):
    monkeypatch.setenv("MOM_MODEL__N_COMPONENTS", "1")
    assert "MOM_MODEL__N_COMPONENTS overrides it" in run().output


def test_bad_input(run):
    assert isinstance(run("--days", "4").exception, TooLittleData)
    for bad in ("x", "0", "-1"):
        assert "--components" in run("--components", bad).output


def test_it_says_which_sizes_were_dropped(run):
    done = run("--components", "3,100000")
    assert done.exit_code == 0, done.output
    assert "Not tried: K = 100,000: more than" in done.output
