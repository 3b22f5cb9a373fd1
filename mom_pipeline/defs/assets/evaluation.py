"""Group `evaluation`: the backtest of the model of some days ago."""

from dataclasses import dataclass, replace
from datetime import date

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.core.evaluation.backtest import Backtest, backtest
from mom_pipeline.core.evaluation.lift import RECENT_DAYS, Lift, lift, lift_objection
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.core.visits import HistoryOf
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.serving import recommendations
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.engine import EngineResource
from mom_pipeline.defs.partitions import SETTINGS, offset
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.logs.admission import is_accepted, judge_day, recent_figures
from mom_pipeline.serving.gate import judged_day
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import (
    delivered_pairs,
    metrics_rows,
    metrics_until,
    replace_metrics,
)

_HORIZON = SETTINGS.evaluation.horizon_days


@daily_asset(
    "evaluation",
    {"duckdb", "table"},
    # With their logs, matrices and models: the model of then, what was taken since, yesterday's.
    [dg.AssetDep(recommendations, partition_mapping=offset(-_HORIZON, 0))],
    revision=1,
    uses_warehouse=True,
)
def evaluation_metrics(
    context: dg.AssetExecutionContext, data_folder: DataFolder, engine: EngineResource
) -> Materialized:
    """Precision, recall, MAP and nDCG of the model of `evaluation.horizon_days` ago.

    A backtest: its lists against what its users took in the deliveries since, beside popularity
    as of the same day. A user's earlier items do not count, unless `serving.exclude_seen` is
    false; users without a history are left out. The values of each user are stored for the gate
    of `promotion`.

    And the model of the day before on what users took on the day itself: a day on which it did
    far worse than on the days before is kept out, and computed again without its rows.
    """
    state, warehouse = data_folder.state, data_folder.warehouse

    def compute(day: date) -> DayOutput:
        judged = _judge(state, warehouse, engine, day)
        output = evaluate(day)
        shown = {**output.metadata, **judged.shown}
        return replace(output, metadata=shown, verdicts=[*output.verdicts, judged.verdict])

    def evaluate(day: date) -> DayOutput:
        model_day = judged_day(state, day)
        try:
            measured, version = _backtest(data_folder, engine, model_day, day)
        except StaleArtifact as reason:
            return _nothing(state, warehouse, day, f"skipped: {reason}")
        if measured is None:
            return _nothing(state, warehouse, day, "skipped: nobody took anything new")
        state.write_backtest(day, measured, {"decomposition": version})
        ranking = state.chosen(model_day).model.ranking
        by_ranking = {ranking: measured.model, "popularity": measured.popularity}
        rows = metrics_rows(day, model_day, by_ranking)
        with warehouse.connect() as connection:
            replace_metrics(connection, day, rows)
            history = metrics_until(connection, day)
        k = nearest_cutoff(measured.model.cutoffs)
        ours, theirs = measured.model.recall[k], measured.popularity.recall[k]
        return DayOutput(
            content_hash(*rows),
            f"Recall@{k} {ours:.4f}, popularity {theirs:.4f}",
            metadata.of_backtest(measured, rows, history),
            [checks.better_than_popularity(ours, theirs)],
        )

    return for_each_day(context, compute)


def _backtest(
    data_folder: DataFolder, engine: EngineResource, model_day: date, day: date
) -> tuple[Backtest | None, str]:
    """The model of a day on the deliveries since, and the version of its components."""
    state = data_folder.state
    model, made = state.model(model_day, engine)
    model = data_folder.listing(model)
    train = engine.users(state.rows(model_day))
    test = delivered_pairs(data_folder.warehouse, model_day, day, engine.array)
    settings = state.settings
    history, seen = HistoryOf(model, state.half_life(model_day)), settings.serving.exclude_seen
    cutoffs = settings.evaluation.cutoffs
    return backtest(history, train, test, cutoffs, exclude_seen=seen), made.version


@dataclass(frozen=True)
class _Judged:
    """How the model of the day before did on a day."""

    shown: dict[str, float]
    verdict: checks.Verdict


def _judge(state: DayState, warehouse: Warehouse, engine: EngineResource, day: date) -> _Judged:
    """Ask the model of the day before about a day; keep the day out if it did badly."""
    yesterday = state.day_before(day)
    try:
        model, _ = state.model(yesterday, engine, with_pairs=False)
        train = engine.users(state.rows(yesterday))
        test = delivered_pairs(warehouse, yesterday, day, engine.array, kept_out=True)
        today = lift(model, train, test)
    except StaleArtifact:
        today = None
    with warehouse.connect() as connection:
        recent = [Lift.from_dict(d) for d in recent_figures(connection, day, "model", RECENT_DAYS)]
        objection = lift_objection(today, recent)
        judge_day(
            connection,
            day,
            "model",
            today.as_dict() if today else {},
            [objection] if objection else [],
        )
        accepted = is_accepted(connection, day)
    shown = {"lift": today.value, "lift_users": today.n_users} if today else {}
    return _Judged(shown, checks.usual_for_the_model(today, objection, accepted=accepted))


def _nothing(state: DayState, warehouse: Warehouse, day: date, note: str) -> DayOutput:
    """A day without a model to look back at: no rows, and a note."""
    with warehouse.connect() as connection:
        replace_metrics(connection, day, [])
    state.artifacts.remove("evaluation_metrics", day)
    verdict = checks.better_than_popularity(None, None)
    return DayOutput(content_hash(day, "nothing"), note, {"note": note}, [verdict])
