"""The whole graph over real files: every asset, every day, the same by every path."""

import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.whitening import whitened_tensor
from mom_pipeline.core.linear_algebra.compact import packed
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.definitions import defs
from mom_pipeline.defs.build import ASSETS
from mom_pipeline.defs.daily import TABLES
from mom_pipeline.pipeline.days import CODE_VERSION, INPUTS

from .conftest import N_DAYS, Pipeline, day, lines_of

NAMES = [asset.name for asset in ASSETS]
STORED = (
    "interaction_matrix",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
    "groups",
)
SHOWN = {
    "raw_logs": "files rows rejects reject_reasons users items sample_rows",
    "interaction_matrix": "users items non_zeros density changed_users",
    "chosen_settings": "chosen_on n_components estimator personalization weights",
    "m2_statistics": "mode changed_users d1s d2s d3s top_pairs",
    "whitening_matrix": "spectrum whitening_error captured_share passes",
    "whitened_tensor": "symmetry_error norm users_visited",
    "decomposition": "components residual negative_mass largest_drift mean_agreement",
    "user_personalization": "users mean_entropy_bits",
    "groups": "groups unsupported people largest_share as_many_even_groups",
    "recommendations": "rows coverage most_listed model_version export",
    "evaluation_metrics": "metrics recall_at_20 popularity_recall_at_20",
    "promotion": "model_version decision promoted champion map popularity_map",
    "report": "path bytes",
}


def test_the_graph_is_a_line_from_the_log_files_to_the_report():
    graph = defs.get_repository_def().asset_graph
    parents = {
        key.to_user_string(): sorted(p.to_user_string() for p in graph.get(key).parent_keys - {key})
        for key in graph.get_all_asset_keys()
    }
    assert list(INPUTS) == NAMES
    line = [name for name in NAMES if name != "groups"]
    assert parents == {
        "log_files": [],
        **{asset: [before] for before, asset in pairwise(["log_files", *line])},
        "groups": ["user_personalization"],
        "model_comparison": ["evaluation_metrics"],
        "model_in_use": ["promotion"],
    }
    for name in ("daily_update", "full_rebuild"):
        job = defs.resolve_job_def(name)
        assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == set(NAMES)


def test_every_asset_has_what_its_page_shows():
    for key, asset in defs.get_repository_def().assets_defs_by_key.items():
        spec = asset.get_asset_spec(key)
        assert spec.description
        assert spec.kinds
        assert spec.owners
        if asset.is_executable:
            (reference,) = spec.metadata["dagster/code_references"].code_references
            assert Path(reference.file_path).is_file()
            assert spec.code_version == CODE_VERSION
            assert asset.backfill_policy == dg.BackfillPolicy.single_run()


def test_every_day_of_every_asset_is_materialized_once(backfilled: Pipeline):
    """Any backfill whose runs succeed is green."""
    for name in NAMES:
        records = backfilled.instance.fetch_materializations(dg.AssetKey(name), limit=100).records
        assert Counter(record.partition_key for record in records) == {
            str(day(n)): 1 for n in range(1, N_DAYS + 1)
        }
    assert backfilled.states() == ["fresh"] * N_DAYS


@pytest.mark.parametrize("name", NAMES)
def test_the_metadata_are_shown(backfilled: Pipeline, name: str):
    assert set(SHOWN[name].split()) <= set(backfilled.metadata(name, N_DAYS))


def test_no_id_of_a_person_is_in_the_history_of_dagster(tmp_path: Path, log_files):
    """After a run with metadata, a refused file, an exception and a check that failed."""
    names = sorted(log_files)
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        pipeline = Pipeline(tmp_path / "data", instance)
        person = "ada-lovelace-1815"
        pipeline.deliver(
            {
                **{name: log_files[name] for name in names[:2]},
                f"{day(1)}-late.csv": lines_of(day(1), person),
                f"{day(2)}-late.csv": f"{person},jazz-001,not a time\n".encode(),
            }
        )
        pipeline.run(1, 2)
        assert pipeline.statuses()[day(2)].status == "failed"
        users = [user for (user,) in pipeline.query("SELECT DISTINCT user_id FROM raw_logs")]
        assert person in users
        made = pipeline.days.made["interaction_matrix", day(2)]
        pipeline.days.store.path("interaction_matrix", made.version).unlink()
        assert not pipeline.run(2, only=["m2_statistics"], succeeds=False).success
        pipeline.query(f"DELETE FROM raw_logs WHERE user_id = '{person}'")
        assert not pipeline.run(1, only=["raw_logs"], succeeds=False).success
    history = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert any(b"whitening_matrix" in content for content in history)
    for content in history:
        assert not [user for user in users if user.encode() in content]


def test_the_tables_are_described_as_they_are(backfilled: Pipeline):
    for name, columns in TABLES.items():
        stored = backfilled.query(
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_name = '{name}' ORDER BY ordinal_position"
        )
        kinds = {
            column: kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ").replace(" ", "")
            for column, kind in stored
        }
        assert {column: kind.replace(" ", "") for column, (kind, *_) in columns.items()} == kinds
        assert {source for of in columns.values() for source in of[2:]} <= TABLES["raw_logs"].keys()
    shown = backfilled.metadata("recommendations", N_DAYS)["dagster/column_lineage"]
    assert shown.deps_by_column["user_id"][0].asset_key == dg.AssetKey("raw_logs")


def test_only_the_first_day_is_computed_in_full(backfilled: Pipeline):
    modes = [backfilled.mode(n).split(":")[0] for n in range(1, N_DAYS + 1)]
    assert modes == ["full"] + ["incremental"] * (N_DAYS - 1)


def test_a_day_without_a_model_to_look_back_at_says_so(backfilled: Pipeline):
    assert "skipped" in backfilled.metadata("evaluation_metrics", 1)["note"]
    rows = backfilled.query("SELECT min(day), count(*) FROM evaluation_metrics")
    assert rows == [(day(3), 3 * 2 * 3)]


def test_day_by_day_is_one_backfill(backfilled: Pipeline, empty: Pipeline, log_files):
    """What came later changes nothing about a day."""
    n_days = N_DAYS - 2
    for n, (name, content) in enumerate(sorted(log_files.items())[:n_days], start=1):
        empty.deliver({name: content})
        empty.run(n)
    assert_same_arrays(backfilled, empty, n_days)
    metrics = f"SELECT * EXCLUDE (day, model_day, ranking) FROM evaluation_metrics WHERE day <= '{day(n_days)}' ORDER BY ALL"  # noqa: E501
    ours, expected = (p.query(metrics) for p in (empty, backfilled))
    assert len(ours) == 2 * 3
    np.testing.assert_allclose(ours, expected)


def test_late_data_end_where_they_would_have_been_in_time(copied: Pipeline, backfilled, log_files):
    """Of the last day, whose yesterday still has its sums."""
    name = sorted(log_files)[-1]
    lines = gzip.decompress(log_files[name]).splitlines(keepends=True)
    copied.deliver({name: gzip.compress(b"".join(lines[: len(lines) // 2]))})
    copied.update()
    with pytest.raises(AssertionError):
        assert_same_arrays(backfilled, copied, N_DAYS)
    copied.deliver(log_files)
    copied.update()
    assert copied.mode(N_DAYS) == "incremental"
    assert_same_arrays(backfilled, copied, N_DAYS)


def test_in_full_from_nothing_with_the_same_anchor(backfilled: Pipeline):
    days, last = backfilled.days, day(N_DAYS)
    anchor, stored = days.moments(last)
    start = days.arrays("decomposition", day(1))["anchor_components"]
    whole = AnchoredSums.from_rows(days.rows(last).X, anchor)
    np.testing.assert_allclose(stored.pairs, whole.pairs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(stored.triples, whole.triples, atol=1e-9)
    np.testing.assert_allclose(stored.item_pairs, whole.item_pairs, atol=1e-9)
    components = decompose(replace(anchor, components=start), whole, days.decompose_settings(last))
    kept = days.arrays("decomposition", last)
    np.testing.assert_allclose(kept["item_probs"], components.item_probs, atol=1e-6)
    np.testing.assert_allclose(kept["weights"], components.weights, atol=1e-6)
    tensor = days.arrays("whitened_tensor", last)["tensor"]
    expected = packed(whitened_tensor(whole, components.whitening))
    np.testing.assert_allclose(tensor, expected, atol=1e-6)


def test_the_same_day_again_changes_nothing(copied: Pipeline, backfilled: Pipeline):
    copied.run(N_DAYS)
    assert copied.versions(*STORED) == backfilled.versions(*STORED)
    assert copied.query("FROM recommendations ORDER BY ALL") == backfilled.query(
        "FROM recommendations ORDER BY ALL"
    )


def assert_same_arrays(
    one: Pipeline, two: Pipeline, n_days: int, assets: Sequence[str] = STORED
) -> None:
    for asset in assets:
        for n in range(1, n_days + 1):
            a, b = (p.days.arrays(asset, day(n)) for p in (one, two))
            assert a.keys() == b.keys()
            for name in a:
                ours, theirs = (x.data if hasattr(x, "indptr") else x for x in (a[name], b[name]))
                assert ours.shape == theirs.shape, (asset, n, name)
                np.testing.assert_allclose(
                    ours, theirs, atol=1e-6, rtol=1e-6, err_msg=f"{asset} {name} {n}"
                )
