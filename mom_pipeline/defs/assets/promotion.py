"""Group `gate`: what a model has to pass before it is in use."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.retention import apply_retention
from mom_pipeline.defs.assets.ends import untold_champion
from mom_pipeline.defs.assets.evaluation import evaluation_metrics
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.defs.runs import remove_old_logs
from mom_pipeline.logs.admission import held_days
from mom_pipeline.serving.gate import Delivered, Promoted, judged_day, promote_day, store_day
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import ids_by_position
from mom_pipeline.warehouse.evaluations import delivered_pairs
from mom_pipeline.warehouse.matrix import state_fingerprints
from mom_pipeline.warehouse.recommendations import remove_exports, remove_superseded

# Days whose runs keep their logs: who looks at one has an alarm at hand.
_LOG_DAYS = 14


@daily_asset(
    "gate",
    {"numpy"},
    [evaluation_metrics],
    revision=1,
    uses_warehouse=True,
)
def promotion(
    context: dg.AssetExecutionContext, data_folder: DataFolder, engine: EngineResource
) -> Materialized:
    """The model of the day as a version in `models`; in use if it passes the gate.

    The first model is in use at once. Later, a model of the same settings and code passes with
    a new day of data, unless that day was kept out or a check failed. Other settings or code are
    compared with the champion on the same users and days, days that neither has learnt from: the
    paired bootstrap interval of the MAP must exclude a loss beyond `promotion.max_loss`. What a
    person put in use stays until a person lifts that.

    Every day becomes a version, as many as are kept; the last day of a run that was not kept out
    alone goes through the gate: nobody wants to serve the models in the middle of a backfill. At
    the end what is too old is removed (`artifacts.retention_days`).
    """
    state, warehouse = data_folder.state, data_folder.warehouse
    registry = ModelRegistry(state.settings.models_dir, mapped=state.settings.engine.mapped)
    days = sorted(context.partition_keys)
    stored = days[-state.settings.promotion.keep_versions :]
    kept_out = _kept_out(state, warehouse, [date.fromisoformat(key) for key in days])
    judged = max((day for day in days if date.fromisoformat(day) not in kept_out), default="")

    def compute(day: date) -> DayOutput:
        if day in kept_out:
            return _no_version(day, f"kept out: {kept_out[day]}")
        if day.isoformat() not in stored:
            return _no_version(day, "older than those that promotion.keep_versions keeps")
        backtest = state.backtest(day, judged_day(state, day))
        if day.isoformat() == judged:
            delivered = _delivered(state, warehouse, engine, day)
            done = promote_day(state, registry, day, delivered, backtest, engine)
            version = content_hash(done.version, done.champion)
            return DayOutput(version, f"{done.version} {done.decision.words}", _shown(done))
        try:
            delivered = _delivered(state, warehouse, engine, day)
            version = store_day(state, registry, day, delivered, backtest, engine)
        except StaleArtifact as reason:  # the run is long, and the day's arrays have expired
            return _no_version(day, str(reason))
        note = "a version; only the last usual day of a run goes through the gate"
        return DayOutput(version, note, {"model_version": version, "note": note})

    promoted = for_each_day(context, compute)
    if champion := untold_champion(context.instance, registry):
        context.log_event(champion)
    run_days = [date.fromisoformat(key) for key in days]
    context.log.info(_retain(state, warehouse, context.instance, run_days))
    return promoted


def _kept_out(state: DayState, warehouse: Warehouse, days: Sequence[date]) -> dict[date, str]:
    """Return the days of a run that no model may be taken from, with the reason.

    Those that the gate kept out, and those after one that was kept out in this run: their
    models have seen its rows, and are made again without them.
    """
    with warehouse.reading() as connection:
        kept_out = held_days(connection)
        now = state_fingerprints(connection, state.settings, days)
    for day in days:
        with suppress(StaleArtifact):
            matrix = state.fitting("interaction_matrix", day, with_arrays=False)
            if day not in kept_out and matrix.parents["raw_logs"] != now[day]:
                kept_out[day] = "rows that it was made from were kept out since; compute it again"
    return kept_out


def _delivered(
    state: DayState, warehouse: Warehouse, engine: EngineResource, day: date
) -> Delivered:
    with warehouse.reading() as connection:
        items, users = (ids_by_position(connection, kind) for kind in ("item", "user"))
    pairs = delivered_pairs(warehouse, judged_day(state, day), day, engine.array)
    return Delivered(items, users, pairs)


def _no_version(day: date, reason: str) -> DayOutput:
    note = f"no version: {reason}"
    return DayOutput(content_hash(day, note), note, {"note": note, "decision": reason})


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


def _retain(
    state: DayState, warehouse: Warehouse, instance: dg.DagsterInstance, run_days: Sequence[date]
) -> str:
    """Remove arrays, lists, exports and logs of runs that are too old; see `artifacts` in the
    settings.

    A run of old days alone asked for just these: they stay until the next run.
    """
    settings, horizon = state.settings.artifacts, state.settings.evaluation.horizon_days
    kept = settings.retention_days
    days = state.artifacts.days("decomposition")
    if not kept or not days:
        return "all days are kept (artifacts.retention_days)"
    newest = days[-1]
    spared = run_days if max(run_days) < newest else []
    listed = state.listing_day(newest)
    ranking = {*days[-horizon - 1 :], listed}
    moment_bytes = settings.moment_megabytes * 2**20
    removed = apply_retention(
        state.artifacts, kept, ranking, moment_bytes, listed=listed, spared=spared
    )
    oldest = min([newest - timedelta(days=settings.list_days - 1), *spared])
    remove_exports(state.settings.exports_dir / "recommendations", oldest)
    with warehouse.connect() as connection:
        rows = remove_superseded(connection, oldest)
    logs = remove_old_logs(instance, newest - timedelta(days=min(kept, _LOG_DAYS) - 1))
    return (
        f"{removed.days} artifacts, the arrays of {removed.moments} older moments, {rows} rows of "
        f"lists and {logs} logs of runs removed (retention)"
    )
