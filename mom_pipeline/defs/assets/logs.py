"""Group `logs`: what was delivered, and the interaction matrix as of each day."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg

from mom_pipeline.artifacts.day_artifacts import Damaged, StaleArtifact
from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.core.evaluation.drift import popularity_drift
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.sums import column_sums
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.assets.ends import log_files
from mom_pipeline.defs.conditions import DAILY_FRESH, TRIED_AGAIN
from mom_pipeline.defs.days import DayOutput, Materialized, content_hash, daily_asset, for_each_day
from mom_pipeline.defs.partitions import YESTERDAY
from mom_pipeline.defs.resources import DataFolder
from mom_pipeline.logs.admission import held_days, judge_day, recent_figures
from mom_pipeline.logs.day_figures import DayFigures, day_figures
from mom_pipeline.logs.ingest import IngestFailure, ingest_day
from mom_pipeline.logs.ledger import DeliveredDay, delivered_day
from mom_pipeline.logs.objections import RECENT_DAYS, objections
from mom_pipeline.logs.refusals import refusals
from mom_pipeline.warehouse.connection import Connection
from mom_pipeline.warehouse.dictionaries import renumber
from mom_pipeline.warehouse.matrix import matrix_as_of


@daily_asset(
    "logs",
    {"duckdb", "table"},
    [log_files],
    revision=1,
    uses_warehouse=True,
    freshness_policy=DAILY_FRESH,
    retry_policy=TRIED_AGAIN,
)
def raw_logs(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """Events as delivered, one row each, exactly once.

    The day is the delivery day: the day in the name of the log file. A file that is delivered
    again replaces exactly its own rows; a malformed line goes to the quarantine with its reason.
    A file that cannot be taken is refused, and the day is what was delivered before. A day that
    differs from the days before it, as a damaged or foreign one does, is kept out: its rows stay
    here, but later days are computed without them until a person accepts the day.
    """
    warehouse = data_folder.warehouse

    def compute(day: date) -> DayOutput:
        not_taken = [r for r in ingest_day(warehouse, day) if isinstance(r, IngestFailure)]
        with warehouse.connect() as connection:
            kept_out = _judge(connection, day)
            delivered = delivered_day(connection, day)
            refused = {r.source_file: r.reason for r in refusals(connection, day) if not r.dropped}
        refused |= {failure.file.source_file: str(failure.error) for failure in not_taken}
        summary = (
            f"{delivered.files} files, {delivered.accepted} rows, {delivered.rejected} rejected"
        )
        if kept_out:
            summary += f"; kept out: {kept_out}"
        version = content_hash(delivered.contents, delivered.accepted, kept_out)
        verdicts = [
            checks.files_taken(refused),
            checks.usual_day(kept_out),
            *_verdicts(day, delivered),
        ]
        return DayOutput(version, summary, _shown(delivered, kept_out, refused), verdicts)

    done = for_each_day(context, compute)
    days = [date.fromisoformat(key) for key in context.partition_keys]
    if _number_in_order(data_folder, min(days), max(days)):
        context.log.info(f"positions from {min(days)} on were given anew, as days in order have")
    return done


def _judge(connection: Connection, day: date) -> str:
    """Compare a day's rows with the days before; return why it is kept out, or ""."""
    figures = day_figures(connection, day)
    recent, kept_out = (
        [
            DayFigures.from_dict(values)
            for values in recent_figures(connection, day, "rows", RECENT_DAYS, kept_out=out)
        ]
        for out in (False, True)
    )
    reasons = objections(figures, recent, kept_out) if figures.rows else []
    judge_day(connection, day, "rows", figures.as_dict() if figures.rows else {}, reasons)
    return held_days(connection).get(day, "")


def _number_in_order(data_folder: DataFolder, first: date, last: date) -> bool:
    """Give the ids of a run's days the positions that days in order have.

    Only where the run reaches the newest day: all arrays of these days are made anew. They are
    removed before the new positions are stored, so that none is ever read with other names.
    """
    artifacts = data_folder.state.artifacts
    if last < max(artifacts.days("interaction_matrix"), default=last):
        return False
    with data_folder.warehouse.connect() as connection:
        moved = renumber(connection, first)
        if moved:
            artifacts.remove_from(first)
    return moved


def _shown(delivered: DeliveredDay, kept_out: str, refused: Mapping[str, str]) -> dict[str, Any]:
    reasons = [{"reason": reason, "rows": n} for reason, n in delivered.reasons.items()]
    return {
        "files": delivered.files,
        "rows": delivered.accepted,
        "rejects": delivered.rejected,
        "reject_reasons": metadata.table(reasons),
        "users": delivered.users,
        "items": delivered.items,
        "sample_rows": metadata.table(delivered.sample),
        **({"kept_out": kept_out} if kept_out else {}),
        **({"refused": metadata.table(_rows(refused))} if refused else {}),
    }


def _rows(refused: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"file": name, "reason": reason} for name, reason in refused.items()]


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
    revision=1,
    uses_warehouse=True,
)
def interaction_matrix(context: dg.AssetExecutionContext, data_folder: DataFolder) -> Materialized:
    """Users x items as of the day: every event delivered up to it, within the window, filtered.

    Positions are append-only, so yesterday's rows can be compared with today's: the users whose
    rows differ are all that the moments have to visit.
    """
    state = data_folder.state

    def compute(day: date) -> DayOutput:
        matrix = matrix_as_of(data_folder.warehouse, day, state.new_array)
        X, (before, damage) = matrix.interactions, _rows_before(state, day)
        n_changed = X.shape[0] if before is None else len(changed_rows(before, X))
        written = state.write_matrix(day, X, matrix.last_days, matrix.fingerprint)
        shown = metadata.of_matrix(X, n_changed) | ({"damage": damage} if damage else {})
        moved = 0.0 if before is None else popularity_drift(column_sums(X), column_sums(before))
        verdicts = [checks.steady_popularity(moved)]
        summary = f"{shown['users']} users, {X.nnz} pairs, {n_changed} users changed"
        return DayOutput(written.version, summary, shown, verdicts)

    return for_each_day(context, compute)


def _rows_before(state: DayState, day: date) -> tuple[Csr | None, str]:
    """The rows of the day before, None where there are none; and what is damaged, or "".

    Nobody can read through a damaged matrix. It is removed, so that `update` makes it and the
    days that are stored as changes of it again.
    """
    try:
        return state.rows(state.day_before(day)).X, ""
    except Damaged as damage:
        state.artifacts.remove(damage.asset, damage.day)
        return None, f"{damage}; it was removed, to be made again from the logs"
    except StaleArtifact:
        return None, ""
