"""The sample logs day by day against every day in full: the metrics stay within 1 %."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.storage.sample_logs import SampleSettings, sample_deliveries

from .conftest import Pipeline

N_DAYS = 24
# The first days double the data, and are rebuilt whatever the settings say.
_SETTLED_FROM = 7
_LARGEST_DIFFERENCE = 0.01
# All that the metrics need; without the lists, Dagster would not know to evaluate last.
_MODEL = (
    "raw_logs",
    "interaction_matrix",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
)


@pytest.fixture(scope="module")
def sample_files() -> dict[str, bytes]:
    final = {delivery.name: delivery.content for delivery in sample_deliveries(SampleSettings())}
    return dict(sorted(final.items())[:N_DAYS])


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, sample_files: Mapping[str, bytes]
) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Day by day from the changed users, and every day in full, with the default settings."""
    with dg.instance_for_test() as instance, dg.instance_for_test() as other:
        paths = {n: tmp_path_factory.mktemp(n) for n in ("incremental", "full")}
        incremental, full = Pipeline(paths["incremental"], instance), Pipeline(paths["full"], other)
        for pipeline in (incremental, full):
            _take_defaults(pipeline.root)
            pipeline.deliver(sample_files)
            pipeline.run(1, N_DAYS, only=_MODEL, full=pipeline is full)
            pipeline.run(1, N_DAYS, only=["evaluation_metrics"])
        yield incremental, full


def _take_defaults(root: Path) -> None:
    (root / "pipeline.toml").unlink()


def test_most_days_are_incremental(runs: tuple[Pipeline, Pipeline]):
    incremental, full = runs
    settled = [incremental.mode(n) for n in range(_SETTLED_FROM, N_DAYS + 1)]
    assert settled.count("incremental") > 0.7 * len(settled)
    assert not any(full.mode(n) == "incremental" for n in range(1, N_DAYS + 1))


def test_every_metric_at_every_cutoff_on_every_day(runs: tuple[Pipeline, Pipeline]):
    metrics = "precision_at_k, recall_at_k, map_at_k, ndcg_at_k"
    sql = (
        f"SELECT day, cutoff, {metrics} FROM evaluation_metrics "
        "WHERE ranking <> 'popularity' ORDER BY day, cutoff"
    )
    ours, reference = (pipeline.query(sql) for pipeline in runs)
    cutoffs = runs[0].settings.evaluation.cutoffs
    assert len(ours) == (N_DAYS - runs[0].settings.evaluation.horizon_days) * len(cutoffs)
    assert [row[:2] for row in ours] == [row[:2] for row in reference]
    values, expected = (np.array([row[2:] for row in rows]) for rows in (ours, reference))
    assert (expected > 0).all()
    assert (values != expected).any()
    np.testing.assert_allclose(values, expected, rtol=_LARGEST_DIFFERENCE, atol=0)
