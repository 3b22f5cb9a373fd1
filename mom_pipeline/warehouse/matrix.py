"""Sparse matrices of users and items, as of a day or of a test period, and their positions."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mom_pipeline.core.interactions import NewArray
from mom_pipeline.settings import MatrixSettings, Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql, scalar

Kind = Literal["user", "item"]
# In place of an id that was erased: no event has it, and its position is never given again.
ERASED = ""
KINDS: tuple[Kind, Kind] = ("user", "item")  # the only identifiers put into SQL below
_MILLIONTHS = 1_000_000
# Pairs that are in the memory of this process at a time.
_PAIRS_PER_BLOCK = 4_000_000
_BEFORE_ALL_EVENTS = "1900-01-01 00:00:00+00"


def extend_dictionaries(connection: Connection, day: date) -> None:
    """Give positions to all ids admitted up to a day; existing positions never change."""
    for kind in KINDS:
        for name in ("extend_dictionary", "earlier_first_days"):
            sql = load_sql(f"warehouse/{name}.sql").replace("{kind}", kind)
            connection.execute(sql, {"day": day})


def forget_positions(connection: Connection, first: date) -> None:
    """Take back positions from a day on, so that late days end with the arrays of days in order."""
    for kind in KINDS:
        connection.execute(
            f"DELETE FROM {kind}_dictionary WHERE first_day >= $first",  # noqa: S608
            {"first": first},
        )


def dictionary_size(connection: Connection, kind: Kind, day: date) -> int:
    """Positions 0 … size-1 cover every id that was first delivered up to `day`."""
    return scalar(
        connection,
        f"SELECT coalesce(max(position) + 1, 0) FROM {kind}_dictionary WHERE first_day <= $day",  # noqa: S608
        {"day": day},
    )


def ids_by_position(connection: Connection, kind: Kind) -> NDArray[np.object_]:
    """All ids, the one of position p at index p; None where an id was erased."""
    rows = connection.execute(
        f"SELECT position, {kind}_id AS id FROM {kind}_dictionary ORDER BY position"  # noqa: S608
    ).fetchnumpy()
    positions = np.asarray(rows["position"], dtype=np.int64)
    ids = np.full(positions[-1] + 1 if len(positions) else 0, None, dtype=object)
    ids[positions] = np.asarray(rows["id"], dtype=object)
    ids[ids == ERASED] = None
    return ids


@dataclass(frozen=True)
class DayMatrix:
    """The state as of a day, by the positions of the dictionaries."""

    day: date
    interactions: csr_array  # (users, items) float64, canonical; what filters removed is empty
    last_days: csr_array  # the same entries: the day number of the pair's last event
    fingerprint: str  # of the deliveries that it was made from


def matrix_as_of(warehouse: Warehouse, day: date, new_array: NewArray = np.empty) -> DayMatrix:
    """Every event delivered up to `day` whose event day lies in the window that ends with it.

    Items with at least `min_item_users` users are kept, then users with at least `min_user_items`
    of these. The dictionaries must hold the ids of these days.
    new_array: makes the arrays, also in files, which are written a block of pairs at a time.
    """
    settings = warehouse.settings
    with warehouse.reading() as connection:
        fingerprint = logs_fingerprint(connection, day)
        events, window = load_sql("warehouse/window_events.sql"), _window(settings, day)
        X, last_days = _matrix(connection, day, events, window, settings.matrix, new_array)
    return DayMatrix(day, X, last_days, fingerprint)


def delivered_pairs(
    warehouse: Warehouse, after: date, until: date, new_array: NewArray = np.empty
) -> csr_array:
    """1 for every user and item in the deliveries after one day and up to another, unfiltered."""
    query, period = load_sql("warehouse/delivered_pairs.sql"), {"after": after, "until": until}
    unfiltered = MatrixSettings(min_item_users=1, min_user_items=1)
    with warehouse.reading() as connection:
        return _matrix(connection, until, query, period, unfiltered, new_array)[0]


def _matrix(
    connection: Connection,
    day: date,
    pairs: str,
    parameters: Mapping[str, object],
    least: MatrixSettings,
    new_array: NewArray,
) -> tuple[csr_array, csr_array]:
    """The weights and the last days of the pairs of a query that pass the filters.

    They lie in a temporary table, which `warehouse.memory_limit` bounds; not in a transaction,
    where rowids do not begin at 0.
    """
    n_users, n_items = (dictionary_size(connection, kind, day) for kind in KINDS)
    query = load_sql("warehouse/kept_pairs.sql").replace("{pairs}", pairs)
    values = {**parameters, "min_item_users": least.min_item_users}
    connection.execute(f"CREATE TEMP TABLE kept_pairs AS {query}", values)
    rows = connection.execute(
        "SELECT user_position, count(*) AS n FROM kept_pairs GROUP BY ALL"
    ).fetchnumpy()
    sizes = np.zeros(n_users + 1, dtype=np.int64)
    sizes[np.asarray(rows["user_position"]) + 1] = rows["n"]
    sizes[sizes < least.min_user_items] = 0
    indptr = np.cumsum(sizes)
    # Columns of the type of indptr: csr_array makes copies in memory of what is of another one.
    weights, columns, days = (
        new_array((int(indptr[-1]),), np.dtype(dtype))
        for dtype in (np.float64, indptr.dtype, np.int32)
    )
    begin = 0
    for start in range(0, int(np.sum(rows["n"])), _PAIRS_PER_BLOCK):
        block = connection.execute(
            "FROM kept_pairs WHERE rowid >= $start AND rowid < $stop",
            {"start": start, "stop": start + _PAIRS_PER_BLOCK},
        ).fetchnumpy()
        users, items, millionths, last = (np.asarray(column) for column in block.values())
        keep = sizes[users + 1] > 0
        own = slice(begin, begin := begin + int(keep.sum()))
        weights[own] = millionths[keep] / _MILLIONTHS
        columns[own], days[own] = items[keep], last[keep]
    connection.execute("DROP TABLE kept_pairs")
    X, last_days = (
        csr_array((values, columns, indptr), shape=(n_users, n_items)) for values in (weights, days)
    )
    return X, last_days


def _window(settings: Settings, day: date) -> dict[str, object]:
    """Bounds of the window that ends with `day` in the declared zone, as instants."""
    begin = _BEFORE_ALL_EVENTS
    if settings.matrix.window_days:
        begin = _midnight(settings, day - timedelta(days=settings.matrix.window_days - 1))
    return {
        "day": day,
        "begin": begin,
        "end": _midnight(settings, day + timedelta(days=1)),
    }


def _midnight(settings: Settings, day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=settings.logs.zone).isoformat()


def logs_fingerprint(connection: Connection, day: date) -> str:
    """Changes whenever the admitted deliveries up to a day do."""
    return logs_fingerprints(connection, [day])[day]


def logs_fingerprints(connection: Connection, days: Collection[date]) -> dict[date, str]:
    """The fingerprints of several days; linear in the deliveries."""
    rows = connection.execute(
        "SELECT delivery_day, source_file, sha256, settings FROM ingest_ledger "
        "WHERE delivery_day NOT IN (SELECT day FROM excluded_days) ORDER BY ALL",
    ).fetchall()
    digest, fingerprints, n_rows = hashlib.sha256(), {}, 0
    for day in sorted(days):
        while n_rows < len(rows) and rows[n_rows][0] <= day:
            digest.update(repr(rows[n_rows]).encode())
            n_rows += 1
        of_day = digest.copy()
        of_day.update(day.isoformat().encode())
        fingerprints[day] = of_day.hexdigest()
    return fingerprints


def is_undated(warehouse: Warehouse, day: date) -> bool:
    """Whether all rows up to a day have one time, as those of a file without times."""
    with warehouse.reading() as connection:
        times = "SELECT count(DISTINCT event_time) FROM admitted_logs WHERE delivery_day <= $day"
        return connection.execute(times, {"day": day}).fetchall() == [(1,)]
