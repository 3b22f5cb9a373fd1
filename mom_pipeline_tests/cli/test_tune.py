"""`tune` on a few days of small logs."""

import shutil
from pathlib import Path

import pytest

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


def test_it_says_what_it_would_write_and_writes_when_told(root):
    file = root / "pipeline.toml"
    before = file.read_text()
    found = mom(root, "tune").stdout
    assert all(name in found for name in (*FEATURES, "model.n_components = "))
    assert file.read_text() == before
    assert (root / "reports" / "tuning.svg").read_bytes().startswith(b"<svg")

    told = mom(root, "tune", "--json", "--write").json
    best = max(told["evidence"]["trials"], key=lambda trial: trial["likelihood"])
    model = load_settings(root, {}).model
    for key in ("n_components", "estimator", "rows"):
        assert getattr(model, key) == told["model"][key] == best[key]
    assert told["written"]
    assert told["changes"]["model.n_components"] == best["n_components"] > 1
    assert "# K" in file.read_text()

    again = mom(root, "tune", "--json", "--write").json
    assert (again["changes"], again["written"]) == ({}, False)
    assert again["ranking"] == told["ranking"]


def test_too_few_days(root):
    mom(root, "tune", "--days", "4", error=TooLittleData)
    mom(root, "tune", "--days", "0", code=2)
