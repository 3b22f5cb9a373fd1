"""The configuration of Dagster, read by Dagster itself."""

import os
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterInstance

from mom_pipeline.dagster_home import prepare_dagster_home
from mom_pipeline.settings import load_settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", "replaced below")
    monkeypatch.chdir(tmp_path)
    return prepare_dagster_home(load_settings(Path("data"), {}))


def test_dagster_home_is_absolute_and_in_the_environment(home: Path, tmp_path: Path) -> None:
    assert home == tmp_path / "data/dagster_home"
    assert os.environ["DAGSTER_HOME"] == str(home)


def test_dagster_takes_every_setting(home: Path) -> None:
    with DagsterInstance.get() as instance:
        pools = instance.get_concurrency_config().pool_config
        assert (pools.default_pool_limit, str(pools.pool_granularity)) == (1, "PoolGranularity.RUN")
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 2
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_settings["free_slots_after_run_end_seconds"] == 30


def test_ours_is_renewed_and_somebody_elses_is_used_as_it_is(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration, settings = home / "dagster.yaml", load_settings(tmp_path / "data", {})
    written = configuration.read_text()
    configuration.write_text(written.replace("default_limit: 1", "default_limit: 7"))
    prepare_dagster_home(settings)
    assert configuration.read_text() == written
    assert capsys.readouterr().err == ""
    theirs = "telemetry: {enabled: true}\n# Written by mom-pipeline\n"
    configuration.write_text(theirs)
    prepare_dagster_home(settings)
    assert configuration.read_text() == theirs
    assert f"{configuration} is not of mom-pipeline" in capsys.readouterr().err
    with DagsterInstance.get() as instance:
        assert instance.telemetry_enabled


def test_the_history_of_an_older_version_begins_anew(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DagsterInstance.get() as instance:
        dg.materialize([_nothing], instance=instance)
        assert instance.get_runs_count() == 1
    old = "# Written by mom-pipeline at every start: edits here are lost.\nstorage:\n  custom:\n"
    (home / "dagster.yaml").write_text(f"{old}    module: mom_pipeline.dagster_storage\n")
    for _ in range(2):
        prepare_dagster_home(load_settings(tmp_path / "data", {}))
    assert capsys.readouterr().err.count("begins anew") == 1
    with DagsterInstance.get() as instance:
        assert instance.get_runs_count() == 0


@dg.asset(name="nothing")
def _nothing() -> None:
    """Made once."""
