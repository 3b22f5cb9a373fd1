"""Group `logs`: what was delivered, and the interaction matrix as of each day."""

from datetime import date, timedelta
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_state import DayState, StaleArtifact
from mom_pipeline.core.algorithm.daily_classes import popularity_drift
from mom_pipeline.core.moments.daily import changed_rows
from mom_pipeline.core.moments.sums import column_sums
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks
from mom_pipeline.defs.days import DayOutcome, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.metadata import picture, table
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.logs.delivered_day import DeliveredDay, delivered_day
from mom_pipeline.logs.delivery import ingest_day
from mom_pipeline.pictures import histogram
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

    def step(day: date) -> DayOutcome:
        ingest_day(data_folder.warehouse, day)
        with data_folder.warehouse.connect() as connection:
            found = delivered_day(connection, day)
        summary = f"{found.files} files, {found.accepted} rows, {found.rejected} rejected"
        return DayOutcome(
            content_hash(found.contents, found.accepted), summary, *_described(day, found)
        )

    return for_each_day(context, step)


def _described(day: date, found: DeliveredDay) -> tuple[dict[str, Any], list[checks.Verdict]]:
    metadata = {
        "files": found.files,
        "rows": found.accepted,
        "rejects": found.rejected,
        "reject_reasons": table([{"reason": k, "rows": n} for k, n in found.reasons.items()]),
        "users": found.users,
        "items": found.items,
        "sample_rows": table(found.sample),
    }
    verdicts = [
        checks.rows_accounted(found.lines, found.header, found.accepted, found.rejected,
                              found.rows, found.quarantined),
        checks.usual_volume(found.accepted, found.trailing),
        checks.fresh_logs(day, found.newest),
    ]  # fmt: skip
    return metadata, verdicts


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

    def step(day: date) -> DayOutcome:
        matrix = matrix_as_of(data_folder.warehouse, day)
        X = matrix.interactions
        before = _rows_before(state, day)
        n_changed = len(changed_rows(before, X)) if before is not None else X.shape[0]
        written = state.write(
            "interaction_matrix", day, {"interactions": X}, {"raw_logs": matrix.fingerprint}, {}
        )
        metadata, verdicts = _described_matrix(state, X, before)
        metadata["changed_users"] = n_changed
        summary = f"{metadata['users']} users, {X.nnz} pairs, {n_changed} users changed"
        return DayOutcome(written.version, summary, metadata, verdicts)

    return for_each_day(context, step)


def _rows_before(state: DayState, day: date) -> Csr | None:
    try:
        return state.matrix(day - timedelta(days=1))[0]
    except StaleArtifact:
        return None


def _described_matrix(
    state: DayState, X: Csr, before: Csr | None
) -> tuple[dict[str, Any], list[checks.Verdict]]:
    items_per_user = np.diff(X.indptr)
    users, items = int((items_per_user > 0).sum()), len(np.unique(X.indices))
    metadata = {
        "users": users,
        "items": items,
        "non_zeros": int(X.nnz),
        "density": X.nnz / max(users * items, 1),
        "items_per_user": picture(
            histogram(items_per_user[items_per_user > 0], title="Items per user", x="items")
        ),
    }
    moved = 0.0 if before is None else popularity_drift(column_sums(X), column_sums(before))
    verdicts = [
        checks.enough_users(users, state.settings.model.n_components),
        checks.steady_popularity(moved),
    ]
    return metadata, verdicts
