"""The configuration of Dagster, read by Dagster itself."""

import os
from pathlib import Path

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


def test_an_edited_or_older_configuration_is_replaced(home: Path, tmp_path: Path) -> None:
    configuration = home / "dagster.yaml"
    written = configuration.read_text()
    configuration.write_text("telemetry: {enabled: true}\n")
    prepare_dagster_home(load_settings(tmp_path / "data", {}))
    assert configuration.read_text() == written
