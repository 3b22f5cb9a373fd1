"""The asset `model_comparison`: thin, on its own, kept where the command keeps its results."""

import dagster as dg
import pytest

from mom_pipeline.comparison.results import load
from mom_pipeline.definitions import OCCASIONAL_ASSETS
from mom_pipeline.defs.assets.comparison import compared_days
from mom_pipeline.defs.run_tags import range_tags

from .conftest import N_DAYS, QUIET, Pipeline, day, failures


@pytest.fixture
def logs_only(empty: Pipeline, log_files) -> Pipeline:
    """All days in the warehouse, and nothing computed: a comparison needs no more."""
    empty.deliver(log_files)
    empty.run(1, N_DAYS, only=["raw_logs"])
    return empty


def compare(pipeline: Pipeline, number: int) -> dg.ExecuteInProcessResult:
    done = dg.materialize(
        OCCASIONAL_ASSETS,
        instance=pipeline.instance,
        resources=pipeline.resources,
        tags=range_tags(day(number), day(number)),
        run_config=QUIET,
        raise_on_error=False,
    )
    assert done.success, failures(done)
    return done


def test_a_day_is_compared_and_shown(logs_only: Pipeline):
    logs_only.configure(
        "[serving]\n",
        '[comparison]\nmethods = ["popularity", "mom-balanced"]\ntest_days = 2\n[serving]\n',
    )
    compare(logs_only, N_DAYS)
    shown = logs_only.metadata("model_comparison", N_DAYS)
    assert shown["reference"] == "mom-balanced"
    assert shown["figure_2"].startswith("![")
    assert "Train 2024-03-01 to 2024-03-03, test 2024-03-04 to 2024-03-05" in shown["remarks"]
    rows = [record.data for record in shown["metrics"].records]
    assert [row["method"] for row in rows] == ["Popularity", "MoM (balanced)"]
    kept = load(logs_only.settings.comparisons_dir / str(day(N_DAYS)))
    assert kept.day == str(day(N_DAYS))
    assert kept.cutoffs == (5, 10, 20)
    assert kept.n_users == shown["users"]
    assert kept.result("mom-balanced").settings["n_components"] == 3
    assert rows[0]["Recall@20"] == f"{kept.result('popularity').means['recall'][2]:.4f}"
    assert not list(logs_only.settings.scratch_dir.glob("comparison-*"))
    version = shown["version"]
    compare(logs_only, N_DAYS)
    assert logs_only.metadata("model_comparison", N_DAYS)["version"] == version


def test_a_run_over_many_days_compares_some_of_them():
    keys = [str(day(n)) for n in range(1, 18)]
    assert compared_days(keys, 7) == {day(17), day(10), day(3)}
    assert len(compared_days(keys, 1)) == 17


def test_a_day_with_too_little_before_it_is_skipped_with_the_reason(logs_only: Pipeline):
    done = compare(logs_only, 2)
    said = [entry.user_message for entry in logs_only.instance.all_logs(done.run_id)]
    assert any("before the first day with events" in line for line in said)
    assert not logs_only.instance.get_materialized_partitions(dg.AssetKey("model_comparison"))
    assert not logs_only.settings.comparisons_dir.exists()
