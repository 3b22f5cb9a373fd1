"""The sample logs with their own settings: every path gives the same arrays, and the metrics stay
within 1 % of those of every day in full.
"""

import gzip
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.tensor import whitened_tensor
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.logs.sample_logs import SampleSettings, sample_deliveries

from .conftest import Pipeline, day
from .test_graph import assert_same_by_id

COMMITTED = Path(__file__).parents[2] / "data" / "pipeline.toml"
N_DAYS = 16
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
    """Day by day from the changed users, and every day in full, with the sample's settings."""
    with dg.instance_for_test() as instance, dg.instance_for_test() as other:
        paths = {n: tmp_path_factory.mktemp(n) for n in ("incremental", "full")}
        incremental, full = Pipeline(paths["incremental"], instance), Pipeline(paths["full"], other)
        for pipeline in (incremental, full):
            _take_sample_settings(pipeline.root)
            pipeline.deliver(sample_files)
            pipeline.run(1, N_DAYS, only=_MODEL, full=pipeline is full)
            pipeline.run(1, N_DAYS, only=["evaluation_metrics"])
        yield incremental, full


def _take_sample_settings(root: Path) -> None:
    """Take the settings that come with the sample logs."""
    shutil.copy(COMMITTED, root / "pipeline.toml")


@pytest.fixture(scope="module")
def anchor(runs: tuple[Pipeline, Pipeline]) -> int:
    """A settled day that was rebuilt, with two days after it from their changed users alone."""
    modes = {n: runs[0].mode(n)[:4] for n in range(1, N_DAYS + 1)}
    return next(
        n
        for n in range(_SETTLED_FROM - 2, N_DAYS - 1)
        if [modes[m] for m in (n, n + 1, n + 2)] == ["full", "incr", "incr"]
    )


def test_most_days_are_incremental(runs: tuple[Pipeline, Pipeline]):
    incremental, full = runs
    settled = [incremental.mode(n) for n in range(_SETTLED_FROM, N_DAYS + 1)]
    assert settled.count("incremental") >= 0.7 * len(settled)
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


def test_day_by_day_is_one_backfill(
    runs: tuple[Pipeline, Pipeline],
    anchor: int,
    empty: Pipeline,
    sample_files: Mapping[str, bytes],
):
    _take_sample_settings(empty.root)
    for n in range(1, anchor + 3):
        name = f"{day(n)}.csv.gz"
        empty.deliver({name: sample_files[name]})
        empty.run(n, only=_MODEL)
        assert empty.mode(n)[:4] == runs[0].mode(n)[:4]
        for asset in _MODEL[1:]:
            found = [p.state.artifacts.read(asset, day(n)).dense for p in (runs[0], empty)]
            assert found[0].keys() == found[1].keys()
            for array, expected in found[0].items():
                np.testing.assert_allclose(
                    found[1][array], expected, rtol=1e-6, atol=1e-6, err_msg=f"{asset} {array} {n}"
                )


def test_late_data_end_where_they_would_have_been_in_time(
    runs: tuple[Pipeline, Pipeline],
    anchor: int,
    empty: Pipeline,
    sample_files: Mapping[str, bytes],
):
    _take_sample_settings(empty.root)
    late_day, last = anchor + 1, anchor + 2
    files, late = dict(list(sample_files.items())[:last]), f"{day(late_day)}.csv.gz"
    lines = gzip.decompress(files[late]).splitlines(keepends=True)
    empty.deliver({**files, late: gzip.compress(b"".join(lines[: len(lines) // 2]))})
    empty.run(1, last, only=_MODEL)
    with pytest.raises(AssertionError):
        assert_same_by_id(runs[0], empty, last, with_posteriors=False)
    empty.deliver(files)
    empty.run(late_day, last, only=_MODEL)
    assert [empty.mode(n) for n in (late_day, last)] == ["incremental"] * 2
    assert_same_by_id(runs[0], empty, last, with_posteriors=False)


def test_in_full_from_nothing_with_the_same_anchor(runs: tuple[Pipeline, Pipeline], anchor: int):
    state = runs[0].state
    start = state.artifacts.read("decomposition", day(anchor)).dense["in_span"]
    for n in (anchor + 1, anchor + 2):
        basis, stored, artifact = state.moments(day(n))
        assert artifact.metadata["anchor_day"] == str(day(anchor))
        whole = AnchoredSums.from_rows(state.matrix(day(n))[0], basis)
        components = decompose(replace(basis, components=start), whole, state.decompose_settings)
        kept = state.artifacts.read("decomposition", day(n)).dense
        tensor = state.artifacts.read("whitened_tensor", day(n)).dense["tensor"]
        np.testing.assert_allclose(stored.pairs, whole.pairs, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(stored.triples, whole.triples, rtol=1e-6, atol=1e-6)
        T = whitened_tensor(whole, components.whitening)
        np.testing.assert_allclose(tensor, T, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(kept["item_probs"], components.item_probs, atol=1e-6)
        np.testing.assert_allclose(kept["weights"], components.weights, atol=1e-6)
