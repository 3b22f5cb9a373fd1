"""The ledger of what was made of each day, and the runs that made it: the one truth about both."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from mom_pipeline.warehouse.connection import Connection, put_row, records


@dataclass(frozen=True)
class Materialization:
    """What an asset made of a day; see the table."""

    asset: str
    day: date
    version: str
    inputs: Mapping[str, str]  # name -> version
    settings: str  # a fingerprint
    code: str
    sound: bool = True  # whether its blocking checks passed
    facts: Mapping[str, Any] = field(default_factory=dict)  # figures, plain values


@dataclass(frozen=True)
class RunRecord:
    """A run of the days from first to last."""

    run_id: str
    first: date
    last: date
    began: float  # seconds since 1970
    failure: str | None  # None while it has no end, "" where it succeeded


def record(connection: Connection, made: Materialization) -> None:
    """Put a row in place of an earlier one of the same asset and day."""
    row = {**vars(made), "inputs": _text(made.inputs), "facts": _text(made.facts)}
    now = datetime.now(tz=UTC)
    put_row(connection, "materializations", ["asset", "day"], **row, made_at=now)


def materializations(connection: Connection) -> dict[tuple[str, date], Materialization]:
    """Every row, by asset and day."""
    rows = records(connection, "SELECT * EXCLUDE (made_at) FROM materializations")
    read = [{name: json.loads(row[name]) for name in ("inputs", "facts")} for row in rows]
    made = (Materialization(**row | values) for row, values in zip(rows, read, strict=True))
    return {(one.asset, one.day): one for one in made}


def forget_days(connection: Connection, first: date, *, besides: Collection[str] = ()) -> None:
    """Remove the rows of a day and of all later ones, except of some assets."""
    connection.execute(
        "DELETE FROM materializations WHERE day >= $first "
        "AND asset NOT IN (SELECT unnest($besides::VARCHAR[]))",
        {"first": first, "besides": list(besides)},
    )


def begin_run(connection: Connection, run_id: str, first: date, last: date) -> None:
    """Record that a run began, once for all of its steps."""
    connection.execute(
        "INSERT INTO runs SELECT $run, $first, $last, $now, NULL, NULL "
        "WHERE NOT EXISTS (FROM runs WHERE run_id = $run)",
        {"run": run_id, "first": first, "last": last, "now": datetime.now(tz=UTC)},
    )


def end_run(connection: Connection, run_id: str, failure: str = "") -> None:
    """Record how a run ended, the first failure if any. failure: asset and reason."""
    connection.execute(
        "UPDATE runs SET ended_at = $now, failure = $failure "
        "WHERE run_id = $run AND coalesce(failure, '') = ''",
        {"run": run_id, "failure": failure, "now": datetime.now(tz=UTC)},
    )


def runs(connection: Connection) -> list[RunRecord]:
    """All runs, the oldest first."""
    rows = connection.execute(
        "SELECT run_id, first_day, last_day, epoch(began_at), failure FROM runs ORDER BY began_at"
    ).fetchall()
    return [RunRecord(*row) for row in rows]


def seconds_of_a_day(connection: Connection) -> float | None:
    """What a day of the runs that succeeded took in the median; None where there was none."""
    [[seconds]] = connection.execute(
        "SELECT median((epoch(ended_at) - epoch(began_at)) / (last_day - first_day + 1)) FROM runs "
        "WHERE failure = ''"
    ).fetchall()
    return None if seconds is None else float(seconds)


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, ensure_ascii=False, allow_nan=False)
