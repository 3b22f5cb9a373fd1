"""The whole graph over real files: every asset, every day, the same by every path."""

import gzip
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.artifacts.day_artifacts import CODE_VERSION
from mom_pipeline.artifacts.day_state import item_probs_in
from mom_pipeline.core.algorithm.decompose import decompose
from mom_pipeline.core.algorithm.tensor import whitened_tensor
from mom_pipeline.core.linear_algebra.symmetric import packed
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.definitions import ASSETS, OCCASIONAL_ASSETS, defs
from mom_pipeline.defs.assets import logs
from mom_pipeline.defs.conditions import TRIED_AGAIN
from mom_pipeline.defs.tables import TABLES
from mom_pipeline.serving.registry import PERSON, ModelRegistry
from mom_pipeline.warehouse.dictionaries import ids_by_position

from .conftest import MODEL, N_DAYS, SERVED, Pipeline, day

NAMES = [asset.key.to_user_string() for asset in ASSETS]
STORED = [
    "anchor",
    "interaction_matrix",
    "m2_statistics",
    "whitening_matrix",
    "whitened_tensor",
    "decomposition",
    "user_personalization",
]
SHOWN = {
    "raw_logs": "files rows rejects reject_reasons users items sample_rows",
    "interaction_matrix": "users items non_zeros density changed_users items_per_user",
    "chosen_settings": "chosen_on n_components estimator personalization weights",
    "m2_statistics": "mode changed_users d1s d2s d3s top_pairs",
    "whitening_matrix": "spectrum whitening_error captured_share passes",
    "whitened_tensor": "symmetry_error norm users_visited",
    "decomposition": "components pi residual negative_mass largest_drift mean_agreement",
    "user_personalization": "entropy users_visited",
    "recommendations": "rows coverage most_listed",
    "evaluation_metrics": "metrics recall trend recall_at_20 popularity_recall_at_20",
    "promotion": "model_version decision promoted champion map_low map_high map popularity_map",
    "report": "path page bytes users agreement",
}
PICTURES = {
    "interaction_matrix": ["items_per_user"],
    "whitening_matrix": ["spectrum"],
    "decomposition": ["pi"],
    "user_personalization": ["entropy"],
    "evaluation_metrics": ["recall", "trend"],
    "report": ["agreement"],
}


def test_there_are_eleven_assets_of_every_day_with_everything_the_page_shows():
    assert list(SHOWN) == NAMES
    assert {spec.group_name for asset in ASSETS for spec in asset.specs} == {
        "logs", "moments", "model", "serving", "evaluation", "gate",
    }  # fmt: skip
    for asset in (*ASSETS, *OCCASIONAL_ASSETS):
        spec = next(iter(asset.specs))
        assert spec.description
        assert spec.kinds
        assert spec.owners
        assert spec.code_version
        assert asset.backfill_policy == dg.BackfillPolicy.single_run()
    assert len({asset.partitions_def for asset in (*ASSETS, *OCCASIONAL_ASSETS)}) == 1


def test_the_graph_is_a_line_from_the_log_files_to_the_model_in_use():
    graph = defs.get_repository_def().asset_graph
    parents = {
        key.to_user_string(): sorted(p.to_user_string() for p in graph.get(key).parent_keys - {key})
        for key in graph.get_all_asset_keys()
    }
    line = ["log_files", *NAMES[:-1], "model_in_use"]
    assert parents == {
        "log_files": [],
        **{asset: [before] for before, asset in pairwise(line)},
        "report": ["evaluation_metrics"],
        "model_comparison": ["evaluation_metrics"],
    }


def test_every_asset_tells_when_it_is_late_and_where_its_code_is():
    graph = defs.get_repository_def().asset_graph
    nodes = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    late = {name for name, node in nodes.items() if node.freshness_policy}
    assert late == {"raw_logs", "recommendations", "model_in_use"}
    itself = {name for name, node in nodes.items() if node.automation_condition}
    assert itself == {"report", "model_comparison"}
    for asset in defs.get_repository_def().assets_defs_by_key.values():
        if asset.is_executable:
            (reference,) = (
                asset.get_asset_spec().metadata["dagster/code_references"].code_references
            )
            assert Path(reference.file_path).is_file()
            assert asset.get_asset_spec().code_version.startswith(f"{CODE_VERSION}.")
    assert logs.raw_logs.op.retry_policy == TRIED_AGAIN


def test_the_tables_are_described_as_they_are_and_their_columns_lead_to_others(
    backfilled: Pipeline,
):
    for name, columns in TABLES.items():
        stored = backfilled.query(
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_name = '{name}' ORDER BY ordinal_position"
        )
        kinds = {
            column: kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
            for column, kind in stored
        }
        described = {column: c.kind.replace(" ", "") for column, c in columns.items()}
        assert described == {column: kind.replace(" ", "") for column, kind in kinds.items()}
        assert all(c.holds for c in columns.values())
        for source in (s for c in columns.values() for s in c.sources):
            table, _, column = source.partition(".")
            assert column in TABLES[table]
    shown = backfilled.metadata("recommendations", N_DAYS)["dagster/column_lineage"]
    assert shown.deps_by_column["user_id"][0].asset_key == dg.AssetKey("raw_logs")


def test_the_next_run_tells_which_model_is_in_use(copied: Pipeline):
    def told():
        records = copied.instance.fetch_materializations(dg.AssetKey("model_in_use"), limit=5)
        return [r.asset_materialization.metadata["model_version"].value for r in records.records]

    registry = ModelRegistry(copied.settings.models_dir)
    champion = registry.champion_version()
    for _ in range(2):  # once for all: nothing has changed
        copied.run(N_DAYS, only=["promotion"])
        assert told() == [champion]
    other = next(version for version in registry.names() if version != champion)
    registry.promote(other, "by hand", by=PERSON)
    copied.run(N_DAYS, only=["promotion"])
    assert told() == [other, champion]


def test_every_day_of_every_asset_is_materialized_once(backfilled: Pipeline):
    for name in NAMES[:-1]:  # pages are written for some days only
        records = backfilled.instance.fetch_materializations(dg.AssetKey(name), limit=100).records
        assert Counter(record.partition_key for record in records) == {
            str(day(n)): 1 for n in range(1, N_DAYS + 1)
        }


@pytest.mark.parametrize("name", NAMES)
def test_the_metadata_are_shown(backfilled: Pipeline, name: str):
    shown = backfilled.metadata(name, N_DAYS)
    assert set(SHOWN[name].split()) <= set(shown)
    for picture in PICTURES.get(name, []):
        assert shown[picture].startswith("![")
        assert "data:image/svg+xml;base64," in shown[picture]


def test_nothing_that_dagster_keeps_names_a_user(backfilled: Pipeline):
    users = {user for (user,) in backfilled.query("SELECT DISTINCT user_id FROM raw_logs")}
    assert len(users) > 100
    for asset in NAMES:
        shown = str(backfilled.metadata(asset, N_DAYS))
        assert not [user for user in users if user in shown], asset
    most_listed = backfilled.metadata("recommendations", N_DAYS)["most_listed"].records
    assert len(most_listed) == 10


def test_only_the_first_day_is_computed_in_full(backfilled: Pipeline):
    modes = [backfilled.mode(n) for n in range(1, N_DAYS + 1)]
    assert modes[0] == "full: there is no m2_statistics of 2024-02-29"
    assert modes[1:] == ["incremental"] * (N_DAYS - 1)


def test_a_day_without_a_model_to_look_back_at_says_so(backfilled: Pipeline):
    assert (
        "there is no decomposition of 2024-02-28"
        in backfilled.metadata("evaluation_metrics", 1)["note"]
    )
    rows = backfilled.query("SELECT min(day)::VARCHAR, count(*) FROM evaluation_metrics")
    assert rows == [("2024-03-03", 3 * 2 * 3)]


def test_day_by_day_is_one_backfill(backfilled: Pipeline, empty: Pipeline, log_files):
    """Up to the second day with metrics: what came later changes nothing about a day."""
    n_days = N_DAYS - 1
    for n, (name, content) in enumerate(sorted(log_files.items())[:n_days], start=1):
        empty.deliver({name: content})
        empty.run(n, only=SERVED)
    assert_same_arrays(backfilled, empty, n_days)
    until = f"WHERE day <= '{day(n_days)}' ORDER BY ALL"
    lists = f"SELECT day, user_id, rank, item_id, round(score, 9) FROM recommendations {until}"
    assert backfilled.query(lists) == empty.query(lists)
    metrics = f"SELECT * EXCLUDE (ranking) FROM evaluation_metrics {until}"
    ours, expected = ([row[2:] for row in p.query(metrics)] for p in (empty, backfilled))
    assert len(ours) == 2 * 2 * 3
    np.testing.assert_allclose(ours, expected)


def test_late_data_end_where_they_would_have_been_in_time(
    backfilled: Pipeline, empty: Pipeline, log_files
):
    late = sorted(log_files)[2]
    lines = gzip.decompress(log_files[late]).splitlines(keepends=True)
    half = gzip.compress(b"".join(lines[: len(lines) // 2]))
    last = N_DAYS - 1
    empty.deliver({**log_files, late: half})
    empty.run(1, last, only=(*MODEL, "user_personalization"))
    before = empty.state.model(day(last))[0].item_probs
    with pytest.raises(AssertionError):
        assert_same_arrays(backfilled, empty, last)
    empty.deliver(log_files)
    empty.run(3, last, only=(*MODEL, "user_personalization"))
    assert empty.mode(3) == "incremental"
    assert_same_by_id(backfilled, empty, last)
    assert np.abs(before - empty.state.model(day(last))[0].item_probs[: len(before)]).max() > 1e-5


def test_in_full_from_nothing_with_the_same_anchor(backfilled: Pipeline):
    state = backfilled.state
    anchor, stored, _ = state.moments(day(N_DAYS))
    X, _ = state.matrix(day(N_DAYS))
    start = state.artifacts.read("decomposition", day(1)).dense["anchor_components"]
    whole = AnchoredSums.from_rows(X, anchor)
    np.testing.assert_allclose(stored.pairs, whole.pairs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(stored.triples, whole.triples, atol=1e-9)
    np.testing.assert_allclose(stored.item_pairs, whole.item_pairs, atol=1e-9)
    components = decompose(
        replace(anchor, components=start), whole, state.decompose_settings(day(N_DAYS))
    )
    kept = state.artifacts.read("decomposition", day(N_DAYS))
    np.testing.assert_allclose(item_probs_in(kept), components.item_probs, atol=1e-6)
    np.testing.assert_allclose(kept.dense["weights"], components.weights, atol=1e-6)
    tensor = state.artifacts.read("whitened_tensor", day(N_DAYS)).dense["tensor"]
    expected = packed(whitened_tensor(whole, components.whitening))
    np.testing.assert_allclose(tensor, expected, atol=1e-6)


def test_the_same_days_again_change_nothing(copied: Pipeline, backfilled: Pipeline):
    copied.run(2, 3, only=SERVED)
    assert copied.mode(2) == "incremental"
    for asset in STORED:
        for n in range(1, N_DAYS + 1):
            same = backfilled.state.artifacts.version(asset, day(n))
            assert copied.state.artifacts.version(asset, day(n)) == same, (asset, n)


def test_everyone_is_visited_when_the_model_moved_at_all(backfilled: Pipeline):
    assert backfilled.settings.serving.refresh_drift == 0
    for n in range(2, N_DAYS + 1):
        shown = backfilled.metadata("user_personalization", n)
        X, _ = backfilled.state.matrix(day(n))
        assert shown["visited_because"].startswith("everyone: serving.refresh_drift is 0")
        assert shown["users_visited"] == (np.diff(X.indptr) > 0).sum()
        posteriors = backfilled.state.artifacts.read("user_personalization", day(n)).dense
        expected = backfilled.state.model(day(n))[0].memberships(X)
        np.testing.assert_allclose(posteriors["memberships"], expected, atol=1e-9)


def test_unchanged_users_keep_their_lists_while_the_model_stands(copied: Pipeline):
    copied.configure("refresh_drift = 0.0", "refresh_drift = 1.0")
    copied.run(N_DAYS, only=["user_personalization", "recommendations"])
    shown = copied.metadata("user_personalization", N_DAYS)
    changed = copied.metadata("recommendations", N_DAYS)["users"]
    assert shown["visited_because"] == "changed histories"
    assert shown["model_day"] == str(day(N_DAYS - 1))
    assert 0 < changed < (np.diff(copied.state.matrix(day(N_DAYS))[0].indptr) > 0).sum()
    posteriors = copied.state.artifacts.read("user_personalization", day(N_DAYS)).dense
    model, _ = copied.state.model(day(N_DAYS - 1))
    X, _ = copied.state.matrix(day(N_DAYS))
    expected = model.memberships(X[:, : model.n_items])
    np.testing.assert_allclose(posteriors["memberships"], expected, atol=1e-9)


def test_everyone_gets_new_lists_when_those_of_some_would_change(copied: Pipeline):
    """Between the two ends: lists that move by more than is allowed are made again."""
    copied.configure("refresh_drift = 0.0", "refresh_drift = 0.0001")
    copied.run(N_DAYS, only=["user_personalization"])
    shown = copied.metadata("user_personalization", N_DAYS)
    assert re.fullmatch(r"everyone: \d+\.\d% of the lists would change", shown["visited_because"])
    assert shown["model_day"] == str(day(N_DAYS))


def test_the_definitions_load_and_their_jobs_hold_every_asset():
    for name in ("daily_update", "full_rebuild"):
        job = defs.resolve_job_def(name)
        assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == set(NAMES)


def test_the_slow_assets_have_jobs_of_their_own():
    job = defs.resolve_job_def("comparison")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {
        "model_comparison"
    }
    assert {asset.key.to_user_string() for asset in OCCASIONAL_ASSETS} == {"model_comparison"}


def assert_same_arrays(one: Pipeline, two: Pipeline, n_days: int) -> None:
    for asset in STORED:
        days, expected = (
            [d for d in p.state.artifacts.days(asset) if d <= day(n_days)] for p in (one, two)
        )
        assert days == expected != []
        for d in days:
            a, b = one.state.artifacts.read(asset, d), two.state.artifacts.read(asset, d)
            assert a.arrays.keys() == b.arrays.keys()
            for name in a.dense:
                assert a.dense[name].shape == b.dense[name].shape, (asset, d, name)
                np.testing.assert_allclose(
                    a.dense[name], b.dense[name], atol=1e-6, rtol=1e-6, err_msg=f"{asset} {name}"
                )


def assert_same_by_id(
    one: Pipeline, two: Pipeline, n_days: int, *, with_posteriors: bool = True
) -> None:
    """Positions depend on the order of arrival; what belongs to an id does not."""
    places = {}
    for kind in ("user", "item"):
        with one.warehouse.connect() as a, two.warehouse.connect() as b:
            ours = {id_: p for p, id_ in enumerate(ids_by_position(a, kind))}
            places[kind] = np.array([ours[id_] for id_ in ids_by_position(b, kind)])
    for n in range(1, n_days + 1):
        shapes = [p.state.matrix(day(n))[0].shape for p in (one, two)]
        users, items = (
            [(q, p) for p, q in enumerate(places[kind][: shapes[1][axis]]) if q < shapes[0][axis]]
            for axis, kind in enumerate(("user", "item"))
        )
        for asset, name, rows in (
            ("m2_statistics", "pairs", None),
            ("m2_statistics", "triples", None),
            ("m2_statistics", "item_events", items),
            ("whitening_matrix", "factors", None),
            ("whitening_matrix", "spectrum", None),
            ("whitened_tensor", "tensor", None),
            ("decomposition", "weights", None),
            ("decomposition", "item_probs", items),
            ("user_personalization", "memberships", users),
        ):
            if asset == "user_personalization" and not with_posteriors:
                continue
            a = one.state.artifacts.read(asset, day(n)).dense[name]
            b = two.state.artifacts.read(asset, day(n)).dense[name]
            if rows is not None:
                a, b = a[[q for q, _ in rows]], b[[p for _, p in rows]]
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=f"{asset} {name} {n}")


def test_several_days_share_a_message_that_names_each(backfilled: Pipeline):
    (run,) = backfilled.instance.get_runs()
    said = [
        entry.user_message
        for entry in backfilled.instance.all_logs(run.run_id)
        if not entry.is_dagster_event and entry.user_message.startswith("whitening_matrix ")
    ]
    assert len(said) == -(-N_DAYS // 10)
    for number in range(1, N_DAYS + 1):
        assert f"{day(number)}: K = " in "".join(said)
