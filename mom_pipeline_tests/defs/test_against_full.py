"""With the settings of the sample: metrics within 1 % of those of every day in full."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

from .conftest import MODEL, Pipeline

SETTINGS_FILE = """\
[model]
n_components = 8
rows = "counts"
ranking = "components"
[tuning]
every_days = 0
"""
N_DAYS = 16
# The metrics of the last day are those of the model of this one.
LAST_JUDGED = 9
# The first days double the data, and are rebuilt whatever the settings say.
_SETTLED_FROM = 7
_LARGEST_DIFFERENCE = 0.01


@pytest.fixture(scope="module")
def sample_files() -> dict[str, bytes]:
    final = {delivery.name: delivery.content for delivery in sample_deliveries(SampleSettings())}
    return dict(sorted(final.items())[:N_DAYS])


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory, sample_files: Mapping[str, bytes]
) -> Iterator[tuple[Pipeline, Pipeline]]:
    """Day by day from the changed users, and every day in full, with the sample's settings."""
    with new_pipeline(tmp_path_factory) as incremental, new_pipeline(tmp_path_factory) as full:
        incremental.deliver(sample_files)
        incremental.run(1, N_DAYS, only=MODEL[:2])
        shutil.copytree(incremental.root, full.root, dirs_exist_ok=True)
        for pipeline, last in ((incremental, N_DAYS), (full, LAST_JUDGED)):
            pipeline.run(1, last, only=MODEL[2:], full=pipeline is full)
            pipeline.run(N_DAYS - LAST_JUDGED + 1, N_DAYS, only=["evaluation_metrics"])
        yield incremental, full


@contextmanager
def new_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """An empty folder with the settings that the sample logs were drawn by."""
    with dg.DagsterInstance.ephemeral() as instance:
        pipeline = Pipeline(tmp_path_factory.mktemp("sample"), instance)
        (pipeline.root / "pipeline.toml").write_text(SETTINGS_FILE)
        yield pipeline


def test_most_days_are_incremental(runs: tuple[Pipeline, Pipeline]):
    incremental, full = runs
    settled = [incremental.mode(n) for n in range(_SETTLED_FROM, N_DAYS + 1)]
    assert settled.count("incremental") >= 0.7 * len(settled)
    assert not any(full.mode(n) == "incremental" for n in range(1, LAST_JUDGED + 1))


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
