"""Group `serving`: the model in use, and the gate that a new one has to pass."""

from datetime import date
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.day_state import StaleArtifact
from mom_pipeline.defs.assets.evaluation import evaluation_metrics
from mom_pipeline.defs.assets.logs import interaction_matrix, raw_logs
from mom_pipeline.defs.assets.model import decomposition
from mom_pipeline.defs.assets.serving import user_personalization
from mom_pipeline.defs.days import DayOutcome, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.partitions import SETTINGS, offset
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.serving.gate import (
    Delivered,
    Promoted,
    backtest_of,
    judged_day,
    promote_day,
    store_day,
)
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.warehouse.dictionaries import ids_by_position
from mom_pipeline.warehouse.evaluations import delivered_pairs

_HORIZON = SETTINGS.evaluation.horizon_days


@daily_asset(
    "serving",
    {"numpy"},
    [
        decomposition,
        user_personalization,
        evaluation_metrics,
        dg.AssetDep(interaction_matrix, partition_mapping=offset(-_HORIZON, 0)),
        dg.AssetDep(raw_logs, partition_mapping=offset(1 - _HORIZON, 0)),
    ],
    uses_warehouse=True,
)
def promotion(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """The model of the day as a version in `models`; in use if it passes the gate.

    The gate compares the MAP of challenger and champion on the same users and days, days that
    neither has learnt from: the challenger is judged by the model of the same settings of
    `evaluation.horizon_days` ago. A champion that young is judged in the same way. The paired
    bootstrap interval must exclude a loss beyond `promotion.max_loss`; all blocking checks have
    passed and every number is finite; the first model must beat popularity.

    Every day becomes a version, as many as are kept; the last day of a run alone goes through
    the gate: nobody wants to serve the models in the middle of a backfill.
    """
    settings, state = data_folder.settings, data_folder.state
    registry, days = ModelRegistry(settings.models_dir), sorted(context.partition_keys)
    stored = days[-settings.promotion.keep_versions :]

    def step(day: date) -> DayOutcome:
        if day.isoformat() not in stored:
            return _no_version(day, "older than those that promotion.keep_versions keeps")
        with data_folder.warehouse.reading() as connection:
            items, users = (ids_by_position(connection, kind) for kind in ("item", "user"))
        test = delivered_pairs(data_folder.warehouse, judged_day(state, day), day)
        delivered = Delivered(items, users, test)
        try:
            backtest = backtest_of(state, day, test)
        except StaleArtifact:
            backtest = None
        if day.isoformat() != days[-1]:
            try:
                version = store_day(state, registry, day, delivered, backtest)
            except StaleArtifact as reason:  # the run is long, and the day's arrays have expired
                return _no_version(day, str(reason))
            note = "a version; only the last day of a run goes through the gate"
            return DayOutcome(version, note, {"model_version": version, "note": note})
        done = promote_day(state, registry, day, delivered, backtest)
        version = content_hash(done.version, done.champion)
        return DayOutcome(version, f"{done.version} {done.decision.words}", _shown(done))

    return for_each_day(context, step)


def _no_version(day: date, reason: str) -> DayOutcome:
    note = f"no version: {reason}"
    return DayOutcome(content_hash(day, "no version"), note, {"note": note})


def _shown(done: Promoted) -> dict[str, Any]:
    decision = done.decision
    compared = {"difference": decision.difference, "low": decision.low, "high": decision.high}
    return {
        "model_version": done.version,
        "decision": decision.words,
        "promoted": decision.passed,
        "champion": done.champion or "none",
        **{f"map_{name}": value for name, value in compared.items() if value is not None},
        **done.metrics,
        "versions_removed": len(done.removed),
    }
