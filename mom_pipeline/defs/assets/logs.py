"""Group `logs`: what was delivered, and the interaction matrix as of each day."""

from datetime import date
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.core.evaluation.stability import popularity_drift
from mom_pipeline.core.interactions import changed_rows
from mom_pipeline.core.moments.sums import column_sums, users_per_item
from mom_pipeline.core.types import Csr
from mom_pipeline.defs import checks
from mom_pipeline.defs.daily import (
    DAILY_FRESH,
    OWNERS,
    RETRIED,
    DayOutput,
    DayRun,
    Names,
    daily_asset,
    table,
)
from mom_pipeline.logs.decisions import refusals
from mom_pipeline.logs.gate import admit, admit_unjudged
from mom_pipeline.logs.ingest import IngestFailure, ingest_day
from mom_pipeline.logs.ledger import delivered_day
from mom_pipeline.pipeline.days import LOGS, NotUsable
from mom_pipeline.warehouse.materializations import forget_days
from mom_pipeline.warehouse.matrix import extend_dictionaries, forget_positions, matrix_as_of


def log_files(names: Names) -> dg.AssetSpec:
    """Where the graph begins: files are delivered, no run makes them."""
    return dg.AssetSpec(
        names.key("log_files"),
        group_name=names.group or "logs",
        kinds={"csv", "file"},
        owners=OWNERS,
        description="The files of the logs folder, each named after its delivery day.",
    )


@daily_asset(
    "logs",
    {"duckdb", "table"},
    "log_files",
    freshness_policy=DAILY_FRESH,
    retry_policy=RETRIED,
)
def raw_logs(run: DayRun, day: date) -> DayOutput:
    """Events as delivered, one row each, exactly once.

    The day is the delivery day: the day in the name of the log file. A file that is delivered
    again replaces exactly its own rows; a malformed line goes to the quarantine with its reason.
    A file that cannot be ingested is refused, and the day is what was delivered before.
    Where the source is a table, the file of the day is made of its rows.
    """
    warehouse, source, read = run.folder.warehouse, run.folder.source, dict[str, str]()
    if source is not None:
        read = run.folder.read_source(source, day)
    if day == run.run_days[0] and not run.names.source:
        run.context.log_event(dg.AssetMaterialization(run.names.key("log_files")))
    failed = [r for r in ingest_day(warehouse, day) if isinstance(r, IngestFailure)]
    with warehouse.connect() as connection:
        delivered = delivered_day(connection, day)
        refused = {r.source_file for r in refusals(connection, day) if not r.dropped}
    refused |= {failure.file.source_file for failure in failed}
    return DayOutput(
        f"{delivered.files} files, {delivered.accepted} rows, {delivered.rejected} rejected",
        {
            "files": delivered.files,
            **{f"version of {name}": version for name, version in read.items() if version},
            "rows": delivered.accepted,
            "rejects": delivered.rejected,
            "reject_reasons": table(
                [{"reason": reason, "rows": n} for reason, n in delivered.reasons.items()]
            ),
            "users": delivered.users,
            "items": delivered.items,
            "sample_rows": table(delivered.sample),
        },
        [
            checks.rows_accounted(delivered),
            checks.files_ingested(sorted(refused)),
            checks.usual_volume(delivered.accepted, delivered.trailing),
            checks.fresh_logs(day, delivered.newest),
        ],
        content=(delivered.contents, delivered.accepted),
        inputs=read,
    )


@daily_asset("logs", {"duckdb", "scipy"}, "raw_logs", from_yesterday=True)
def interaction_matrix(run: DayRun, day: date) -> DayOutput:
    """Users x items as of the day: every admitted event up to it, within the window, filtered.

    A day that differs from the days before it, as a damaged or foreign one does, is excluded: its
    rows stay in `raw_logs`, and no day is computed from them until a person accepts it. Judged by
    the day's figures, and by whether known users take what goes with what they took before.
    Positions are append-only, so yesterday's rows can be compared with today's: the users whose
    rows differ are all that the moments have to visit.
    """
    days, warehouse = run.days, run.folder.warehouse
    if day == run.run_days[0]:
        _number_anew(run)
    before = _rows_before(run, day)
    with warehouse.connect() as connection:
        verdict = admit(connection, day, before)
        extend_dictionaries(connection, day)
    matrix = matrix_as_of(warehouse, day, run.folder.array)
    X, unusual = matrix.interactions, "; ".join(verdict.reasons)
    sizes = np.diff(X.indptr)
    sizes = sizes[sizes > 0]
    n_users, n_items = len(sizes), int(np.count_nonzero(users_per_item(X)))
    facts: dict[str, Any] = {"users": n_users, "interactions": int(X.nnz)}
    if not verdict.admitted:
        facts["excluded"] = unusual
    n_changed = X.shape[0] if before is None else len(changed_rows(before, X))
    moved = 0.0 if before is None else popularity_drift(column_sums(X), column_sums(before))
    summary = f"{n_users} users, {X.nnz} interactions, {n_changed} users changed"
    return DayOutput(
        summary if verdict.admitted else f"{summary}; excluded: {unusual}",
        {
            "items": n_items,
            "non_zeros": int(X.nnz),
            "density": X.nnz / max(n_users * n_items, 1),
            "median_items_per_user": float(np.median(sizes)) if n_users else 0.0,
            "changed_users": n_changed,
            **facts,
        },
        [
            checks.usual_day(unusual, verdict.accepted_by_person, verdict.figures),
            checks.steady_popularity(moved),
        ],
        arrays=days.matrix_arrays(matrix),
        facts=facts,
        inputs={LOGS: matrix.fingerprint},
    )


def _rows_before(run: DayRun, day: date) -> Csr | None:
    """The interactions as of the day before, also where their arrays are gone; None for none."""
    yesterday = run.days.day_before(day)
    try:
        return run.days.rows(yesterday).X
    except NotUsable:
        if ("interaction_matrix", yesterday) not in run.days.made:
            return None
        return matrix_as_of(run.folder.warehouse, yesterday).interactions


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
        # Days of which no matrix was made are judged by their figures alone.
        admit_unjudged(connection, first)
    if is_newest:
        run.days.forget_from(first)
