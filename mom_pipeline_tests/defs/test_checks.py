"""Every check fails where it should."""

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from mom_pipeline.defs import checks
from mom_pipeline.defs.checks import Verdict
from mom_pipeline.logs.ledger import DeliveredDay
from mom_pipeline.settings import load_settings
from mom_pipeline.warehouse.materializations import runs

from .conftest import MODEL, N_DAYS, Pipeline, day, lines_of


def delivered(lines: int) -> DeliveredDay:
    """A day of 8 accepted and 2 rejected lines behind a header."""
    return DeliveredDay(
        files=1,
        lines=lines,
        header=1,
        accepted=8,
        rejected=2,
        rows=8,
        quarantined=2,
        reasons={},
        users=3,
        items=3,
        newest=None,
        trailing=[],
        sample=[],
        contents=[],
    )


NAMES = [name for own in checks.CHECKS.values() for name in own]
NAN = np.array([1.0, np.nan])
FAILING = [
    checks.rows_accounted(delivered(lines=10)),
    checks.usual_volume(10, [100, 120]),
    checks.fresh_logs(date(2024, 3, 2), date(2024, 3, 1)),
    checks.enough_users(63, 8),
    checks.steady_popularity(0.6),
    checks.finite("finite_moments", NAN),
    checks.captured(0.5, 0.95, rebuilt=""),
    checks.whitens(2e-4),
    checks.finite("finite_tensor", np.array([np.inf])),
    checks.distributions("distributions", pi=np.array([0.5, 0.6]), O=np.eye(2)),
    checks.distributions("posteriors", P=np.array([[1.5, 1.0], [-0.5, 0.0]])),
    checks.split_half(np.array([0.9, 0.4]), np.array([0.7, 0.3])),
    checks.unchanged("no_group_vanished", ["group 2 vanished"], 1e-9),
    checks.unchanged("no_group_split", ["group 2 split"], 1e-9),
    checks.unchanged("no_group_doubled", ["group 2 doubled"], 1e-9),
    checks.better_than_popularity(0.1, 0.2),
    checks.files_ingested(["2024-03-02.csv"]),
    checks.usual_day("1,204 rows; about 2,700 would be usual", False, {"rows": 1204}),
]
PASSING = [
    checks.rows_accounted(delivered(lines=11)),
    checks.usual_volume(100, [100, 120]),
    checks.usual_volume(5, []),
    checks.fresh_logs(date(2024, 3, 2), date(2024, 3, 2)),
    checks.enough_users(64, 8),
    checks.enough_users(64, 8).unless("not enough data: day 3"),
    checks.enough_users(63, 8).unless("not enough data: day 3"),
    checks.steady_popularity(0.1),
    checks.finite("finite_moments", np.eye(2)),
    checks.captured(0.95, 0.95, rebuilt=""),
    checks.captured(0.5, 0.95, rebuilt="the basis holds 0.5 of the second moment"),
    checks.whitens(1e-5),
    checks.distributions("distributions", pi=np.array([0.5, 0.5]), O=np.eye(2)),
    checks.split_half(np.array([0.9, 0.5]), np.array([0.7, 0.3])),
    checks.split_half(np.array([0.9, 0.4]), np.array([0.7, 0.3])).unless("not enough data"),
    checks.unchanged("no_group_vanished", [], 1.0),
    checks.unchanged("no_group_split", [], 1.0),
    checks.unchanged("no_group_doubled", [], 1.0),
    checks.better_than_popularity(0.2, 0.1),
    checks.files_ingested([]),
    checks.usual_day("", False, {"rows": 2704}),
    checks.usual_day("1,204 rows; about 2,700 would be usual", True, {"rows": 1204}),
]


@pytest.mark.parametrize("verdict", FAILING, ids=lambda v: v.check)
def test_fails(verdict: Verdict):
    assert not verdict.passed
    assert verdict.seen
    assert verdict.numbers


@pytest.mark.parametrize("verdict", PASSING, ids=lambda v: v.check)
def test_passes(verdict: Verdict):
    assert verdict.passed


def test_every_check_has_a_case_in_which_it_fails():
    assert {verdict.check for verdict in FAILING} == set(NAMES)


@pytest.mark.parametrize(
    ("rows", "quarantined"), [(7, 2), (8, 1)], ids=["a row is gone", "a reject is gone"]
)
def test_rows_in_the_tables_count(rows: int, quarantined: int):
    day_of_logs = replace(delivered(lines=11), rows=rows, quarantined=quarantined)
    assert not checks.rows_accounted(day_of_logs).passed


def test_a_verdict_needs_as_many_days_before_as_the_backtest():
    settings = load_settings(Path("nowhere"), {"MOM_PIPELINE__START_DATE": "2024-03-01"})
    assert settings.evaluation.horizon_days == 7
    assert "not enough data: day 7 of" in checks.too_early(settings, date(2024, 3, 7))
    assert checks.too_early(settings, date(2024, 3, 8)) == ""
    assert checks.enough_users(64, 8).unless("not enough data").seen == "64 users, K^2 = 64"
    assert checks.enough_users(63, 8).unless("not enough data").seen.startswith("not enough data")


def test_every_day_of_a_run_has_a_verdict_of_its_own_with_its_numbers(backfilled: Pipeline):
    (run,) = backfilled.instance.get_runs()
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    logs = backfilled.instance.all_logs(run.run_id, of_type=kind)
    verdicts = [entry.get_dagster_event().asset_check_evaluation_data for entry in logs]
    days = [str(day(n)) for n in range(1, N_DAYS + 1)]
    found = Counter((verdict.check_name, verdict.partition) for verdict in verdicts)
    assert found == {(name, day): 1 for name in NAMES for day in days}
    assert all(verdict.passed for verdict in verdicts)
    last = [verdict for verdict in verdicts if verdict.partition == days[-1]]
    for verdict in last:
        assert verdict.metadata, verdict.check_name
        assert all(isinstance(value.value, float) for value in verdict.metadata.values())
    rows = {
        v.partition: v.metadata["rows"].value for v in verdicts if v.check_name == "usual_volume"
    }
    assert rows == {
        str(d): n
        for d, n in backfilled.query("SELECT delivery_day, count(*) FROM raw_logs GROUP BY ALL")
    }
    # Dagster shows a day as missing whose verdict is not on its newest materialization.
    made = backfilled.instance.fetch_materializations(dg.AssetKey("raw_logs"), limit=100).records
    assert {
        v.partition: v.target_materialization_data.storage_id
        for v in verdicts
        if v.check_name == "usual_volume"
    } == {record.partition_key: record.storage_id for record in made}


def test_a_bad_day_fails_alone(empty: Pipeline, log_files):
    first, _, third = sorted(log_files)[:3]
    empty.deliver({first: log_files[first], third: log_files[third]})
    done = empty.run(1, 3, only=["raw_logs"])
    failed = {
        (c.check_name, c.partition) for c in done.get_asset_check_evaluations() if not c.passed
    }
    assert failed == {("fresh_logs", str(day(2))), ("usual_volume", str(day(2)))}


def test_a_day_with_too_little_for_a_model_is_not_judged(empty: Pipeline):
    empty.deliver({f"{day(1)}.csv": lines_of(day(1), "ada", "bob")})
    done = empty.run(1, only=MODEL)
    verdicts = [c for c in done.get_asset_check_evaluations() if c.check_name == "split_half"]
    assert [(c.passed, c.description) for c in verdicts] == [(True, f"{day(1)}: not enough data")]


def test_a_blocking_check_stops_what_comes_after(copied: Pipeline):
    with copied.warehouse.connect() as connection:
        connection.execute("DELETE FROM raw_logs WHERE delivery_day = '2024-03-04' AND line = 5")
    done = copied.run(4, succeeds=False)
    assert not done.success
    events = done.get_asset_materialization_events()
    assert {event.asset_key.to_user_string() for event in events} == {"log_files", "raw_logs"}
    (failed,) = [c for c in done.get_asset_check_evaluations() if not c.passed]
    assert failed.check_name == "rows_accounted"
    assert copied.statuses()[day(4)].status == "failed"
    with copied.warehouse.reading() as connection:
        assert "raw_logs" in str(runs(connection)[-1].failure)
    assert copied.days.model(day(3)).weights.sum() == pytest.approx(1)


def test_a_warning_stops_nothing(copied: Pipeline):
    copied.configure("n_components = 3", "n_components = 20")
    done = copied.run(4, only=MODEL)
    found = {c.check_name: c.passed for c in done.get_asset_check_evaluations()}
    assert found["enough_users"] is False
    assert len(done.get_asset_materialization_events()) == len(("log_files", *MODEL))


def test_components_that_the_halves_do_not_share_are_named(
    copied: Pipeline, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checks, "MIN_AGREEMENT", 1.0)
    done = copied.run(4, only=["decomposition"])
    (failed,) = [c for c in done.get_asset_check_evaluations() if c.check_name == "split_half"]
    assert not failed.passed
    assert "components 1, 2, 3, 100.0% of pi" in failed.description


def test_a_long_column_of_single_precision_is_a_distribution():
    O = np.random.default_rng(0).random((200_000, 3)).astype(np.float32)
    O /= O.sum(axis=0, dtype=np.float64).astype(np.float32)
    pi = np.ones(1)
    assert checks.distributions("distributions", pi=pi, O=O).passed
    assert not checks.distributions("distributions", pi=pi, O=O * np.float32(1.00001)).passed
