"""The asset `model_comparison`: each day that was asked for, and a note where there is nothing."""

import dagster as dg
import pytest

from mom_pipeline.comparison.results import load
from mom_pipeline.defs.build import build_defs
from mom_pipeline.defs.partitions import range_tags
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

from .conftest import QUIET, Pipeline, day

LOGS = SampleSettings(n_days=9, n_users=100, n_items=30, n_components=3, events_per_day=300, seed=4)


@pytest.fixture
def logs_only(empty: Pipeline) -> Pipeline:
    """All days in the warehouse, and nothing computed: a comparison needs no more."""
    empty.deliver({one.name: one.content for one in sample_deliveries(LOGS)})
    empty.run(1, LOGS.n_days, only=["raw_logs"])
    empty.configure("[serving]\n", '[comparison]\nmethods = ["popularity"]\n[serving]\n')
    return empty


def compare(pipeline: Pipeline, first: int, last: int) -> None:
    job = build_defs(pipeline.root, executor=dg.in_process_executor).resolve_job_def("comparison")
    done = job.execute_in_process(
        instance=pipeline.instance, tags=range_tags(day(first), day(last)), run_config=QUIET
    )
    assert done.success


def test_the_last_day_is_compared_and_every_day_is_green(logs_only: Pipeline):
    last = LOGS.n_days
    compare(logs_only, last - 1, last)
    shown = logs_only.metadata("model_comparison", last)
    kept = load(logs_only.settings.comparisons_dir / str(day(last)))
    assert kept.day == str(day(last))
    assert kept.cutoffs == (5, 10, 20)
    assert kept.n_users == shown["users"]
    assert [record.data["method"] for record in shown["metrics"].records] == ["Popularity"]
    assert not list(logs_only.settings.scratch_dir.glob("comparison-*"))
    assert "last day of a run" in logs_only.metadata("model_comparison", last - 1)["note"]
    compare(logs_only, 2, 2)
    assert "skipped" in logs_only.metadata("model_comparison", 2)["note"]
    green = {str(day(n)) for n in (2, last - 1, last)}
    assert logs_only.instance.get_materialized_partitions(dg.AssetKey("model_comparison")) == green
