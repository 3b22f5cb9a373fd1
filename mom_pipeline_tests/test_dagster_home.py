"""The configuration of Dagster, read by Dagster itself."""

import os
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterInstance

from mom_pipeline.dagster_home import failed_days, prepare_dagster_home
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


DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-06")


class Trouble(dg.Config):
    asset: str = ""


def _asset(name: str, *before: str) -> dg.AssetsDefinition:
    @dg.asset(
        name=name,
        deps=list(before),
        partitions_def=DAILY,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def body(config: Trouble) -> None:
        if config.asset == name:
            raise ValueError("asked for")

    return body


ASSETS = [_asset("first"), _asset("second", "first"), _asset("rare", "second")]


def run(first: int, last: int, trouble: str = "") -> None:
    config = {"ops": {asset.op.name: {"config": {"asset": trouble}} for asset in ASSETS}}
    tags = {
        "dagster/asset_partition_range_start": f"2024-01-{first:02d}",
        "dagster/asset_partition_range_end": f"2024-01-{last:02d}",
    }
    with DagsterInstance.get() as instance:
        dg.materialize(
            ASSETS, instance=instance, run_config=config, tags=tags, raise_on_error=False
        )


def by_dagster() -> set[str]:
    """The days that Dagster shows as failed for an asset of every day."""
    with DagsterInstance.get() as instance:
        return {
            key
            for asset in ASSETS[:2]
            for key, state in (
                instance.get_status_by_partition(asset.key, DAILY.get_partition_keys(), DAILY) or {}
            ).items()
            if state is not None and state.name == "FAILED"
        }


def test_days_that_failed_are_those_that_dagster_shows(home: Path, tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "data", {})
    assert failed_days(settings) == {}  # before the first run
    run(1, 3)
    assert failed_days(settings) == {}
    run(2, 4, trouble="second")
    expected = {f"2024-01-0{n}": "second" for n in (2, 3, 4)}
    assert failed_days(settings, besides=["rare"]) == expected
    assert by_dagster() == expected.keys()
    run(3, 3)  # repaired
    run(4, 4, trouble="first")
    run(1, 1, trouble="rare")
    expected = {"2024-01-02": "second", "2024-01-04": "first"}
    assert failed_days(settings, besides=["rare"]) == expected
    assert by_dagster() == expected.keys()
    assert failed_days(settings) == expected | {"2024-01-01": "rare"}
