"""Group `logs`: what was delivered, and the interaction matrix as of each day."""

from datetime import date

import dagster as dg

from mom_pipeline.core.evaluation.stability import popularity_drift
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.sums import column_sums
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks, metadata
from mom_pipeline.defs.daily import DayOutput, DayRun, content_hash, daily_asset
from mom_pipeline.defs.policies import DAILY_FRESH, RETRIED
from mom_pipeline.logs.decisions import refusals
from mom_pipeline.logs.gate import admit, unjudged_days
from mom_pipeline.logs.ingest import IngestFailure, ingest_day
from mom_pipeline.logs.ledger import delivered_day
from mom_pipeline.pipeline.days import Days, NotUsable
from mom_pipeline.warehouse.dictionaries import extend_dictionaries, forget_positions
from mom_pipeline.warehouse.materializations import forget_days
from mom_pipeline.warehouse.matrix import matrix_as_of


def _note_files(run: DayRun) -> None:
    """Tell Dagster of the files that were found: they are delivered, no run makes them."""
    run.context.log_event(dg.AssetMaterialization(run.names.key("log_files")))


@daily_asset(
    "logs",
    {"duckdb", "table"},
    "log_files",
    after=_note_files,
    freshness_policy=DAILY_FRESH,
    retry_policy=RETRIED,
)
def raw_logs(run: DayRun, day: date) -> DayOutput:
    """Events as delivered, one row each, exactly once.

    The day is the delivery day: the day in the name of the log file. A file that is delivered
    again replaces exactly its own rows; a malformed line goes to the quarantine with its reason.
    A file that cannot be ingested is refused, and the day is what was delivered before.
    """
    warehouse = run.folder.warehouse
    failed = [r for r in ingest_day(warehouse, day) if isinstance(r, IngestFailure)]
    with warehouse.connect() as connection:
        delivered = delivered_day(connection, day)
        refused = {r.source_file for r in refusals(connection, day) if not r.dropped}
    refused |= {failure.file.source_file for failure in failed}
    version = content_hash(delivered.contents, delivered.accepted)
    verdicts = [
        checks.rows_accounted(delivered),
        checks.files_ingested(sorted(refused)),
        checks.usual_volume(delivered.accepted, delivered.trailing),
        checks.fresh_logs(day, delivered.newest),
    ]
    run.days.publish("raw_logs", day, version=version, sound=checks.sound(verdicts))
    summary = f"{delivered.files} files, {delivered.accepted} rows, {delivered.rejected} rejected"
    return DayOutput(version, summary, metadata.of_delivery(delivered), verdicts)


def _number_anew(run: DayRun) -> None:
    """Take back the positions of ids first seen in a run that reaches the newest day.

    So days that come late or are corrected end as days that come in order. What was made of these
    days rests on the old positions: it goes in the same transaction.
    """
    first, last = run.run_days[0], run.run_days[-1]
    is_newest = last >= max(run.days.computed(), default=last)
    with run.folder.warehouse.connect() as connection:
        if is_newest:
            forget_positions(connection, first)
            forget_days(connection, first, besides=["raw_logs"])
        for day in unjudged_days(
            connection, first
        ):  # of which no matrix was made: by figures alone
            admit(connection, day, None)
    if is_newest:
        run.days.forget_from(first)


@daily_asset(
    "logs",
    {"duckdb", "scipy"},
    "raw_logs",
    from_yesterday=True,
    before=_number_anew,
)
def interaction_matrix(run: DayRun, day: date) -> DayOutput:
    """Users x items as of the day: every admitted event up to it, within the window, filtered.

    A day that differs from the days before it, as a damaged or foreign one does, is excluded: its
    rows stay in `raw_logs`, and no day is computed from them until a person accepts it. Judged by
    the day's figures, and by whether known users take what goes with what they took before.
    Positions are append-only, so yesterday's rows can be compared with today's: the users whose
    rows differ are all that the moments have to visit.
    """
    days, warehouse, before = run.days, run.folder.warehouse, _rows_before(run.days, day)
    with warehouse.connect() as connection:
        verdict = admit(connection, day, before)
        extend_dictionaries(connection, day)
    matrix = matrix_as_of(warehouse, day, run.folder.array)
    X, excluded = matrix.interactions, "" if verdict.admitted else "; ".join(verdict.reasons)
    n_changed = X.shape[0] if before is None else len(changed_rows(before, X))
    shown = metadata.of_matrix(X, n_changed)
    facts = {"users": shown["users"], "interactions": int(X.nnz)}
    facts |= {"excluded": excluded} if excluded else {}
    made = days.write_matrix(matrix, facts)
    moved = 0.0 if before is None else popularity_drift(column_sums(X), column_sums(before))
    reasons = "; ".join(verdict.reasons)
    verdicts = [
        checks.usual_day(reasons, verdict.accepted_by_person, verdict.figures),
        checks.steady_popularity(moved),
    ]
    summary = f"{shown['users']} users, {X.nnz} interactions, {n_changed} users changed"
    if excluded:
        summary += f"; excluded: {excluded}"
    return DayOutput(made.version, summary, {**shown, **facts}, verdicts)


def _rows_before(days: Days, day: date) -> Csr | None:
    """The rows of the day before; None where there are none that can be read."""
    try:
        return days.rows(days.day_before(day)).X
    except NotUsable:
        return None
