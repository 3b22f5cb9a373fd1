"""Group `logs`: what was delivered, and the interaction matrix as of each day."""

from datetime import date, timedelta
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.core.evaluation.drift import popularity_drift
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.sums import column_sums
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.logs.delivered_day import DeliveredDay, delivered_day
from mom_pipeline.logs.delivery import ingest_day
from mom_pipeline.warehouse.matrix import matrix_as_of

_RAW_COLUMNS = {
    "source_file": "VARCHAR",
    "line": "BIGINT",
    "delivery_day": "DATE",
    "event_time": "TIMESTAMPTZ",
    "user_id": "VARCHAR",
    "item_id": "VARCHAR",
    "weight": "DECIMAL(18, 6)",
}


@daily_asset("logs", {"duckdb", "table"}, uses_warehouse=True, columns=_RAW_COLUMNS)
def raw_logs(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """Events as delivered, one row each, exactly once.

    The day is the delivery day: the day in the name of the log file. A file that is delivered
    again replaces exactly its own rows; a malformed line goes to the quarantine with its reason.
    """

    def compute(day: date) -> DayOutput:
        ingest_day(data_folder.warehouse, day)
        with data_folder.warehouse.reading() as connection:
            delivered = delivered_day(connection, day)
        summary = (
            f"{delivered.files} files, {delivered.accepted} rows, {delivered.rejected} rejected"
        )
        version = content_hash(delivered.contents, delivered.accepted)
        return DayOutput(version, summary, _shown(delivered), _verdicts(day, delivered))

    return for_each_day(context, compute)


def _shown(delivered: DeliveredDay) -> dict[str, Any]:
    reasons = [{"reason": reason, "rows": n} for reason, n in delivered.reasons.items()]
    return {
        "files": delivered.files,
        "rows": delivered.accepted,
        "rejects": delivered.rejected,
        "reject_reasons": metadata.table(reasons),
        "users": delivered.users,
        "items": delivered.items,
        "sample_rows": metadata.table(delivered.sample),
    }


def _verdicts(day: date, delivered: DeliveredDay) -> list[checks.Verdict]:
    return [
        checks.rows_accounted(delivered),
        checks.usual_volume(delivered.accepted, delivered.trailing),
        checks.fresh_logs(day, delivered.newest),
    ]


@daily_asset(
    "logs",
    {"duckdb", "scipy"},
    [raw_logs, dg.AssetDep("interaction_matrix", partition_mapping=YESTERDAY)],
    uses_warehouse=True,
)
def interaction_matrix(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """Users x items as of the day: every event delivered up to it, within the window, filtered.

    Positions are append-only, so yesterday's rows can be compared with today's: the users whose
    rows differ are all that the moments have to visit.
    """
    state = data_folder.state

    def compute(day: date) -> DayOutput:
        matrix = matrix_as_of(data_folder.warehouse, day)
        X, before = matrix.interactions, _rows_before(state, day)
        n_changed = X.shape[0] if before is None else len(changed_rows(before, X))
        written = state.write(
            "interaction_matrix", day, {"interactions": X}, {"raw_logs": matrix.fingerprint}, {}
        )
        shown = metadata.of_matrix(X, n_changed)
        moved = 0.0 if before is None else popularity_drift(column_sums(X), column_sums(before))
        verdicts = [
            checks.enough_users(shown["users"], state.settings.model.n_components),
            checks.steady_popularity(moved),
        ]
        summary = f"{shown['users']} users, {X.nnz} pairs, {n_changed} users changed"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _rows_before(state: DayState, day: date) -> Csr | None:
    try:
        return state.matrix(day - timedelta(days=1))[0]
    except StaleArtifact:
        return None
