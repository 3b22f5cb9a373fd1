"""Group `evaluation`: how well the model of some days ago foresaw what was delivered since."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.core.evaluation.backtest import Backtest, backtest
from mom_pipeline.core.evaluation.metrics import nearest_cutoff
from mom_pipeline.defs import checks
from mom_pipeline.defs.assets.logs import raw_logs
from mom_pipeline.defs.assets.serving import recommendations
from mom_pipeline.defs.days import DayOutcome, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture, table
from mom_pipeline.defs.partitions import SETTINGS, offset
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.pictures import curves
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.evaluations import (
    MetricsRow,
    delivered_pairs,
    metrics_rows,
    metrics_until,
    replace_metrics,
)
from mom_pipeline.warehouse.recommendations import remove_superseded

_HORIZON = SETTINGS.evaluation.horizon_days
_COLUMNS = {
    "day": "DATE",
    "model_day": "DATE",
    "ranking": "VARCHAR",
    "cutoff": "INTEGER",
    "precision_at_k": "DOUBLE",
    "recall_at_k": "DOUBLE",
    "map_at_k": "DOUBLE",
    "ndcg_at_k": "DOUBLE",
    "users": "INTEGER",
}


@daily_asset(
    "evaluation",
    {"duckdb", "table"},
    [
        dg.AssetDep(recommendations, partition_mapping=offset(-_HORIZON, -_HORIZON)),
        dg.AssetDep(raw_logs, partition_mapping=offset(1 - _HORIZON, 0)),
    ],
    uses_warehouse=True,
    columns=_COLUMNS,
)
def evaluation_metrics(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """Precision, recall, MAP and nDCG of the model of `evaluation.horizon_days` ago.

    Scored on what its users took in the deliveries since, beside popularity as of the same day.
    A user's earlier items do not count; users without a history are left out.
    """
    state = data_folder.state

    def step(day: date) -> DayOutcome:
        model_day = day - timedelta(days=state.settings.evaluation.horizon_days)
        try:
            found = _backtest(state, data_folder.warehouse, model_day, day)
        except StaleArtifact as reason:
            return _nothing(data_folder.warehouse, day, f"skipped: {reason}")
        if found is None:
            return _nothing(data_folder.warehouse, day, "skipped: nobody took anything new")
        ranking = state.settings.model.ranking
        rows = metrics_rows(day, model_day, {ranking: found.model, "popularity": found.popularity})
        with data_folder.warehouse.reading() as connection:
            replace_metrics(connection, day, rows)
            history = metrics_until(connection, day)
        return _scored(found, rows, history)

    done = for_each_day(context, step)
    days = [date.fromisoformat(key) for key in context.partition_keys]
    context.log.info(_retain(state, data_folder.warehouse, days))
    return done


def _retain(state: DayState, warehouse: Warehouse, run_days: Sequence[date]) -> str:
    """Apply `artifacts.retention_days` to the arrays and to the table of lists.

    A run of old days alone asked for just these: they stay until the next run.
    """
    kept = state.settings.artifacts.retention_days
    newest = max(state.artifacts.days("decomposition"), default=None)
    if not kept or newest is None:
        return "all days are kept (artifacts.retention_days)"
    spared = run_days if max(run_days) < newest else []
    removed = state.artifacts.apply_retention(kept, spared=spared)
    oldest = min([newest - timedelta(days=kept - 1), *spared])
    with warehouse.reading() as connection:
        rows = remove_superseded(connection, oldest)
    return f"{len(removed)} days of arrays and {rows} rows of lists removed (retention)"


def _backtest(state: DayState, warehouse: Warehouse, model_day: date, day: date) -> Backtest | None:
    model, _ = state.model(model_day)
    train, _ = state.matrix(model_day)
    test = delivered_pairs(warehouse, model_day, day)
    return backtest(model, train, test, state.settings.evaluation.cutoffs)


def _nothing(warehouse: Warehouse, day: date, note: str) -> DayOutcome:
    """A day without a model to look back at: no rows, and a note."""
    with warehouse.connect() as connection:
        replace_metrics(connection, day, [])
    verdict = checks.better_than_popularity(None, None)
    return DayOutcome(content_hash(day, "nothing"), note, {"note": note}, [verdict])


def _scored(found: Backtest, rows: list[MetricsRow], history: list[MetricsRow]) -> DayOutcome:
    k = nearest_cutoff(found.model.cutoffs)
    ours, theirs = found.model.recall[k], found.popularity.recall[k]
    names = (rows[0].ranking, "popularity")
    at_cutoffs = {n: [r.recall for r in rows if r.ranking == n] for n in names}
    at_days = {n: [r.recall for r in history if r.ranking == n and r.cutoff == k] for n in names}
    days = [f"{r.day:%m-%d}" for r in history if r.ranking == names[0] and r.cutoff == k]
    if len({len(days), *map(len, at_days.values())}) > 1:  # another ranking in earlier days
        days, at_days = days[-1:], {n: values[-1:] for n, values in at_days.items()}
    metadata = {
        "model_day": rows[0].model_day.isoformat(),
        "users": found.model.n_users,
        "newcomers_left_out": found.n_newcomers,
        f"recall_at_{k}": ours,
        f"popularity_recall_at_{k}": theirs,
        "metrics": table([_shown(row) for row in rows]),
        "recall": picture(curves(found.model.cutoffs, at_cutoffs, title="Recall at each cut-off",
                                 x_label="cut-off, items in the list",
                                 y=f"recall (n = {found.model.n_users:,} users)")),
        "trend": picture(curves(days, at_days, title=f"Recall@{k} by day",
                                x_label=f"day (n = {len(days)})", y=f"recall@{k}, mean of users")),
    }  # fmt: skip
    return DayOutcome(
        content_hash(*rows),
        f"Recall@{k} {ours:.4f}, popularity {theirs:.4f}",
        metadata,
        [checks.better_than_popularity(ours, theirs)],
    )


def _shown(row: MetricsRow) -> dict[str, Any]:
    return {
        "ranking": row.ranking,
        "cutoff": row.cutoff,
        "precision": round(row.precision, 5),
        "recall": round(row.recall, 5),
        "map": round(row.map, 5),
        "ndcg": round(row.ndcg, 5),
    }
