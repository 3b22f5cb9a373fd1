"""The ledger of what was made of each day, and the runs that made it: the one truth about both."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from mom_pipeline.warehouse.connection import Connection

_COLUMNS = "asset, day, version, inputs, settings, code, sound, facts"


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
    key = {"asset": made.asset, "day": made.day.isoformat()}
    connection.execute(
        "DELETE FROM materializations WHERE asset = $asset AND day = $day::DATE", key
    )
    connection.execute(
        "INSERT INTO materializations VALUES ($asset, $day::DATE, $version, $inputs, $settings, "
        "$code, $sound, $facts, $now)",
        {
            **key,
            "version": made.version,
            "inputs": _text(made.inputs),
            "settings": made.settings,
            "code": made.code,
            "sound": made.sound,
            "facts": _text(made.facts),
            "now": datetime.now(tz=UTC),
        },
    )


def materializations(connection: Connection) -> dict[tuple[str, date], Materialization]:
    """Every row, by asset and day."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM materializations").fetchall()  # noqa: S608
    return {
        (asset, day): Materialization(
            asset, day, version, json.loads(inputs), settings, code, sound, json.loads(facts)
        )
        for asset, day, version, inputs, settings, code, sound, facts in rows
    }


def forget_days(connection: Connection, first: date, *, besides: Collection[str] = ()) -> None:
    """Remove the rows of a day and of all later ones, except of some assets."""
    connection.execute(
        "DELETE FROM materializations WHERE day >= $first::DATE "
        "AND asset NOT IN (SELECT unnest($besides::VARCHAR[]))",
        {"first": first.isoformat(), "besides": list(besides)},
    )


def begin_run(connection: Connection, run_id: str, first: date, last: date) -> None:
    """Record that a run began, once for all of its steps."""
    connection.execute(
        "INSERT INTO runs SELECT $run, $first::DATE, $last::DATE, $now, NULL, NULL "
        "WHERE NOT EXISTS (FROM runs WHERE run_id = $run)",
        {
            "run": run_id,
            "first": first.isoformat(),
            "last": last.isoformat(),
            "now": datetime.now(tz=UTC),
        },
    )


def end_run(connection: Connection, run_id: str, failure: str) -> None:
    """Record how a run ended. failure: asset and reason; "" where it succeeded."""
    connection.execute(
        "UPDATE runs SET ended_at = $now, failure = $failure WHERE run_id = $run",
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
