"""A folder that was run day by day is computed again in one `update`, whatever is gone of it."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import numpy as np
import pytest
from click.testing import CliRunner, Result

from mom_pipeline.cli.main import cli
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries
from mom_pipeline.pipeline import days as days_module
from mom_pipeline.serving.registry import ModelRegistry

from .conftest import N_DAYS, Pipeline, day

FIFTEEN = SampleSettings(
    n_days=15, n_users=80, n_items=20, n_components=3, events_per_day=120, seed=4
)
LISTS = "SELECT * EXCLUDE (model) FROM recommendations ORDER BY ALL"


def update(pipeline: Pipeline) -> Result:
    return CliRunner(env={"MOM_DATA_DIR": str(pipeline.root)}).invoke(cli, ["update"])


def states(pipeline: Pipeline) -> set[str]:
    return {entry.status for entry in pipeline.statuses().values()}


@pytest.mark.long
def test_other_settings_after_fifteen_days_one_by_one(tmp_path: Path):
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path, instance)
        pipeline.configure("retention_days = 0", "retention_days = 4")
        files = {delivery.name: delivery.content for delivery in sample_deliveries(FIFTEEN)}
        for number, (name, content) in enumerate(sorted(files.items()), start=1):
            pipeline.deliver({name: content})
            pipeline.run(number)
    assert states(pipeline) == {"fresh"}
    assert not pipeline.days.store.path(*version_of(pipeline, "decomposition", 1)).exists()
    pipeline.configure("min_item_users = 3", "min_item_users = 4")
    done = update(pipeline)
    assert done.exit_code == 0, done.output
    assert states(pipeline) == {"fresh"}
    assert "Nothing to compute" in update(pipeline).output


def version_of(pipeline: Pipeline, asset: str, number: int) -> tuple[str, str]:
    return asset, pipeline.days.made[asset, day(number)].version


@pytest.fixture
def lists_before(copied: Pipeline) -> Iterator[list[tuple[object, ...]]]:
    """Everybody's lists, which are the same at the end."""
    before = copied.query(LISTS)
    yield before
    assert states(copied) == {"fresh"}
    assert copied.query(LISTS) == before


def test_rows_of_the_ledger_whose_arrays_are_gone(copied: Pipeline, lists_before):
    assets = ("decomposition", "m2_statistics", "interaction_matrix")
    for asset in assets:  # the first one in the order of the assets is named
        copied.days.store.path(*version_of(copied, asset, N_DAYS - 1)).unlink()
        entry = copied.statuses()[day(N_DAYS - 1)]
        assert (entry.status, entry.behind) == ("stale", True)
        assert asset in entry.reason
    done = update(copied)
    assert done.exit_code == 0, done.output
    for asset in assets:
        assert copied.days.store.path(*version_of(copied, asset, N_DAYS - 1)).exists()


def test_arrays_without_a_row_are_made_again_and_removed(copied: Pipeline, lists_before):
    copied.query(f"DELETE FROM materializations WHERE day = '{day(N_DAYS)}'")
    stray = copied.days.store.write("decomposition", date(2020, 1, 1), {"weights": np.ones(2)})
    assert copied.statuses()[day(N_DAYS)].status == "missing"
    done = update(copied)
    assert done.exit_code == 0, done.output
    copied.configure("retention_days = 0", "retention_days = 35")
    copied.run(N_DAYS, only=["report"])
    assert not copied.days.store.path("decomposition", stray).exists()


def test_two_versions_of_the_code_on_one_folder(
    copied: Pipeline, lists_before, monkeypatch: pytest.MonkeyPatch
):
    """Each computes a day of the other again; rows, lists and models stay."""
    rows, ours = copied.query("FROM raw_logs ORDER BY ALL"), days_module.CODE_VERSION
    for code in ("later", ours):
        for module in ("pipeline.days", "serving.gate"):
            monkeypatch.setattr(f"mom_pipeline.{module}.CODE_VERSION", code)
        assert "was made by code version" in copied.statuses()[day(N_DAYS)].reason
        copied.run(N_DAYS)
        assert copied.statuses()[day(N_DAYS)].status == "fresh"
    assert copied.query("FROM raw_logs ORDER BY ALL") == rows
    assert ModelRegistry(copied.settings.models_dir).champion().manifest.code_version == ours
