"""The sample logs with their own settings: every path gives the same arrays, and the metrics stay
within 1 % of those of every day in full.
"""

import gzip
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.tensor import whitened_tensor
from mom_pipeline.core.linear_algebra.compact import unpacked
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

from .conftest import MODEL, Pipeline, day
from .test_graph import assert_same_arrays

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


@pytest.fixture(scope="module")
def anchor(runs: tuple[Pipeline, Pipeline]) -> int:
    """A settled day that was rebuilt, with two days after it from their changed users alone."""
    modes = {n: runs[0].mode(n)[:4] for n in range(1, N_DAYS + 1)}
    return next(
        n
        for n in range(_SETTLED_FROM - 2, N_DAYS - 1)
        if [modes[m] for m in (n, n + 1, n + 2)] == ["full", "incr", "incr"]
    )


@pytest.fixture(scope="module")
def begun(
    tmp_path_factory: pytest.TempPathFactory, sample_files: Mapping[str, bytes], anchor: int
) -> Iterator[Pipeline]:
    """The days before the anchor, in one run, before any other was delivered."""
    with new_pipeline(tmp_path_factory) as pipeline:
        pipeline.deliver(dict(list(sample_files.items())[: anchor - 1]))
        pipeline.run(1, anchor - 1, only=MODEL)
        yield pipeline


@pytest.fixture
def going_on(begun: Pipeline, tmp_path: Path) -> Pipeline:
    """A copy of the folder that was begun, with its history."""
    shutil.copytree(begun.root, tmp_path / "going_on")
    pipeline = Pipeline(tmp_path / "going_on", begun.instance)
    (pipeline.root / "pipeline.toml").write_text(SETTINGS_FILE)
    return pipeline


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


def test_day_by_day_is_one_backfill(
    runs: tuple[Pipeline, Pipeline],
    anchor: int,
    going_on: Pipeline,
    sample_files: Mapping[str, bytes],
):
    for n in range(anchor, anchor + 3):
        name = f"{day(n)}.csv.gz"
        going_on.deliver({name: sample_files[name]})
        going_on.run(n, only=MODEL)
        assert going_on.mode(n)[:4] == runs[0].mode(n)[:4]
    assert_same_arrays(runs[0], going_on, anchor + 2, MODEL[3:])


def test_late_data_end_where_they_would_have_been_in_time(
    runs: tuple[Pipeline, Pipeline],
    anchor: int,
    going_on: Pipeline,
    sample_files: Mapping[str, bytes],
):
    late_day, last = anchor + 1, anchor + 2
    files, late = dict(list(sample_files.items())[:last]), f"{day(late_day)}.csv.gz"
    lines = gzip.decompress(files[late]).splitlines(keepends=True)
    going_on.deliver({**files, late: gzip.compress(b"".join(lines[: len(lines) // 2]))})
    going_on.run(anchor, last, only=MODEL)
    with pytest.raises(AssertionError):
        assert_same_arrays(runs[0], going_on, last, MODEL[3:])
    going_on.deliver(files)
    going_on.run(late_day, last, only=MODEL)
    assert [going_on.mode(n) for n in (late_day, last)] == ["incremental"] * 2
    assert_same_arrays(runs[0], going_on, last, MODEL[3:])


def test_in_full_from_nothing_with_the_same_anchor(runs: tuple[Pipeline, Pipeline], anchor: int):
    days = runs[0].days
    start = days.arrays("decomposition", day(anchor))["anchor_components"]
    for n in (anchor + 1, anchor + 2):
        assert days.made["m2_statistics", day(n)].facts["anchor_day"] == str(day(anchor))
        basis = days._anchor_of(days.made["m2_statistics", day(n)]).anchor
        X = days.rows(day(n)).X
        basis = basis.with_items(X.shape[1])
        whole = AnchoredSums.from_rows(X, basis)
        components = decompose(
            replace(basis, components=start), whole, days.decompose_settings(day(n))
        )
        kept = days.arrays("decomposition", day(n))
        T = whitened_tensor(whole, components.whitening)
        tensor = days.arrays("whitened_tensor", day(n))["tensor"]
        np.testing.assert_allclose(unpacked(tensor, len(T)), T, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(kept["item_probs"], components.item_probs, atol=1e-6)
        np.testing.assert_allclose(kept["weights"], components.weights, atol=1e-6)
