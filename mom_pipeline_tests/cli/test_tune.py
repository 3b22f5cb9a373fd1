"""`tune` on a few days of small logs."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mom_pipeline.cli.main import cli
from mom_pipeline.core.errors import TooLittleData
from mom_pipeline.core.ranking.score import FEATURES
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
    return lambda *arguments: CliRunner().invoke(cli, ["tune", *arguments])


def test_it_says_what_it_would_write_and_writes_when_told(run, root):
    file = root / "pipeline.toml"
    before = file.read_text()
    found = run()
    assert found.exit_code == 0, found.output
    assert all(name in found.output for name in FEATURES)
    assert "model.n_components = " in found.output
    assert file.read_text() == before
    assert (root / "reports" / "tuning.svg").read_bytes().startswith(b"<svg")

    told = json.loads(run("--json", "--write").stdout)
    best = max(told["evidence"]["trials"], key=lambda trial: trial["likelihood"])
    model = load_settings(root, {}).model
    for key in ("n_components", "estimator", "rows"):
        assert getattr(model, key) == told["model"][key] == best[key]
    assert told["written"]
    assert told["changes"]["model.n_components"] == best["n_components"] > 1
    assert "# K" in file.read_text()

    again = json.loads(run("--json", "--write").stdout)
    assert (again["changes"], again["written"]) == ({}, False)
    assert again["ranking"] == told["ranking"]


def test_too_few_days(run):
    assert isinstance(run("--days", "4").exception, TooLittleData)
    assert run("--days", "0").exit_code == 2
