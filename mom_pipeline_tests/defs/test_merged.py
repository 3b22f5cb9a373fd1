"""In somebody's own deployment: definitions that merge, and leave theirs as they are."""

import os
from pathlib import Path

import dagster as dg
import pytest

from mom_pipeline import build_defs
from mom_pipeline.defs.build import ASSETS
from mom_pipeline.defs.partitions import range_tags
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline_tests.datasets.postgres import PROGRAMS, server

from .conftest import QUIET, Pipeline, day

OURS = {asset.name for asset in ASSETS}
THEIR_DAY = "2023-05-01"


def their_definitions() -> dg.Definitions:
    """A project whose names are ours: other days, an asset without any, their own executor."""

    @dg.asset(
        partitions_def=dg.DailyPartitionsDefinition("2023-01-01", timezone="America/New_York"),
        required_resource_keys={"data_folder"},
    )
    def raw_logs(context: dg.AssetExecutionContext) -> None:
        assert context.resources.data_folder == "theirs"

    @dg.asset
    def prices() -> None:
        pass

    return dg.Definitions(
        assets=[raw_logs, prices],
        jobs=[dg.define_asset_job("daily_update", dg.AssetSelection.assets("raw_logs"))],
        resources={"data_folder": dg.ResourceDefinition.hardcoded_resource("theirs")},
        executor=dg.in_process_executor,
    )


def merged(pipeline: Pipeline) -> dg.Definitions:
    ours = build_defs(pipeline.root, key_prefix="shop", group="recs", executor=None, schedule=None)
    return dg.Definitions.merge(ours, their_definitions())


def materialize_a_day(pipeline: Pipeline, defs: dg.Definitions) -> None:
    """Ours, then theirs: neither touches the other."""
    instance = pipeline.instance
    done = defs.resolve_job_def("shop_daily_update").execute_in_process(
        instance=instance, tags=range_tags(day(1), day(1)), run_config=QUIET
    )
    made = {event.asset_key for event in done.get_asset_materialization_events()}
    assert {dg.AssetKey(["shop", name]) for name in OURS} <= made
    assert {key.path[0] for key in made} == {"shop"}
    assert ModelRegistry(pipeline.settings.models_dir).champion_version().startswith(str(day(1)))
    assert pipeline.states() == ["fresh"]
    theirs = defs.resolve_job_def("daily_update").execute_in_process(
        instance=instance, partition_key=THEIR_DAY, run_config=QUIET
    )
    assert theirs.success
    assert instance.get_materialized_partitions(dg.AssetKey("raw_logs")) == {THEIR_DAY}
    assert not instance.fetch_materializations(dg.AssetKey("prices"), limit=1).records


@pytest.fixture
def one_day(empty: Pipeline, log_files) -> Pipeline:
    name = sorted(log_files)[0]
    empty.deliver({name: log_files[name]})
    return empty


def test_ours_and_theirs_side_by_side(one_day: Pipeline, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    defs = merged(one_day)
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    groups = {
        key: repository.asset_graph.get(key).group_name
        for key in repository.asset_graph.get_all_asset_keys()
    }
    assert {group for key, group in groups.items() if key.path[0] == "shop"} == {"recs"}
    assert set(groups) - {key for key in groups if key.path[0] == "shop"} == {
        dg.AssetKey("raw_logs"),
        dg.AssetKey("prices"),
    }
    jobs = {"shop_daily_update", "shop_full_rebuild", "shop_comparison", "daily_update"}
    assert {job.name for job in defs.jobs or []} == jobs
    assert {sensor.name for sensor in defs.sensors or []} == {"shop_log_file_sensor"}
    assert not defs.schedules
    assert defs.executor is dg.in_process_executor
    materialize_a_day(one_day, defs)
    assert "DAGSTER_HOME" not in os.environ
    assert not list(one_day.root.rglob("dagster.yaml"))


def test_two_folders_in_one_deployment(one_day: Pipeline, tmp_path: Path):
    second = build_defs(tmp_path / "second", key_prefix=["other", "shop"], schedule="0 1 * * *")
    defs = dg.Definitions.merge(build_defs(one_day.root, key_prefix="shop"), second)
    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_job_def("other_shop_daily_update")


@pytest.mark.long
@pytest.mark.skipif(not PROGRAMS, reason="needs PostgreSQL: apt-get install postgresql")
def test_with_postgres_as_the_storage_of_dagster(one_day: Pipeline, tmp_path: Path):
    pytest.importorskip("dagster_postgres")
    with server(PROGRAMS[-1]) as url:
        home = tmp_path / "home"
        home.mkdir()
        url = url.replace("postgresql:", "postgresql+psycopg2:")  # the driver of dagster-postgres
        written = f"storage:\n  postgres:\n    postgres_url: {url}\n"
        (home / "dagster.yaml").write_text(written)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            one_day.instance = instance
            materialize_a_day(one_day, merged(one_day))
            assert instance.get_runs_count() == 2
        assert (home / "dagster.yaml").read_text() == written
