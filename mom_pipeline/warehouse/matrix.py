"""The interaction matrix as of a day: filtered, sparse, with stable positions."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
from scipy.sparse import csr_array

from mom_pipeline.core.types import Array
from mom_pipeline.settings import MatrixSettings, Settings, fingerprint
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql
from mom_pipeline.warehouse.dictionaries import dictionary_size, reading_dictionaries

_MILLIONTHS = 1_000_000
_BEFORE_ALL_EVENTS = "1900-01-01 00:00:00+00"


@dataclass(frozen=True)
class DayMatrix:
    """The state as of a day.

    interactions: (users, items) float64 CSR, canonical; row and column are the positions of
        the dictionaries, and what the filters removed is empty.
    last_days: (users, items) with the same entries: the day of a pair's last event, a number
        of days.
    fingerprint: of the deliveries and settings that it was made from.
    """

    day: date
    interactions: csr_array
    last_days: csr_array
    fingerprint: str


def matrix_as_of(warehouse: Warehouse, day: date) -> DayMatrix:
    """Every event delivered up to `day` whose event day lies in the window that ends with it.

    Linear in the events of the window. Items with at least `min_item_users` users are kept,
    then users with at least `min_user_items` of these items.
    """
    settings = warehouse.settings
    with reading_dictionaries(warehouse, day) as connection:
        state = state_fingerprint(connection, settings, day)
        pairs = _pairs(connection, settings, day)
        shape = (dictionary_size(connection, "user", day), dictionary_size(connection, "item", day))
    rows, items = pairs["user_position"], pairs["item_position"]
    keep = _kept(rows, items, shape, settings.matrix)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows[keep], minlength=shape[0]), out=indptr[1:])
    weights, last_days = pairs["millionths"][keep] / _MILLIONTHS, pairs["last_day"][keep]
    X, days = (
        csr_array((values, items[keep], indptr), shape=shape) for values in (weights, last_days)
    )
    return DayMatrix(day, X, days, state)


def _pairs(connection: Connection, settings: Settings, day: date) -> dict[str, Array]:
    """Every pair of the window by user and item, unfiltered; see the query."""
    query = load_sql("warehouse/window_events.sql")
    columns = connection.execute(query, _window(settings, day)).fetchnumpy()
    return {name: np.asarray(values) for name, values in columns.items()}


def _kept(rows: Array, items: Array, shape: tuple[int, int], settings: MatrixSettings) -> Array:
    """Which pairs stay: those of items that are not rare, then of users with enough of these."""
    n_users, n_items = shape
    keep = (np.bincount(items, minlength=n_items) >= settings.min_item_users)[items]
    items_per_user = np.bincount(rows[keep], minlength=n_users)
    return np.asarray(keep & (items_per_user >= settings.min_user_items)[rows])


def _window(settings: Settings, day: date) -> dict[str, object]:
    """Values for `delivery_day <= $day AND event_time >= $begin AND event_time < $end`.

    The window ends with the last moment of `day` in the declared zone. Bounds are instants, so
    that no event has to be converted to local time.
    """
    begin = _BEFORE_ALL_EVENTS
    if settings.matrix.window_days:
        begin = _midnight(settings, day - timedelta(days=settings.matrix.window_days - 1))
    return {
        "day": day.isoformat(),
        "begin": begin,
        "end": _midnight(settings, day + timedelta(days=1)),
    }


def _midnight(settings: Settings, day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=settings.logs.zone).isoformat()


def state_fingerprint(connection: Connection, settings: Settings, day: date) -> str:
    """Changes whenever the matrix as of `day` may: other deliveries up to it, other settings."""
    return state_fingerprints(connection, settings, [day])[day]


def state_fingerprints(
    connection: Connection, settings: Settings, days: Collection[date]
) -> dict[date, str]:
    """The fingerprints of several days; linear in the deliveries."""
    rows = connection.execute(
        "SELECT delivery_day, source_file, sha256, settings FROM ingest_ledger "
        "WHERE delivery_day NOT IN (SELECT day FROM held_days) ORDER BY ALL",
    ).fetchall()
    digest = hashlib.sha256(f"{settings.logs.timezone} {fingerprint(settings.matrix)}".encode())
    fingerprints, n_rows = {}, 0
    for day in sorted(days):
        while n_rows < len(rows) and rows[n_rows][0] <= day:
            digest.update(repr(rows[n_rows]).encode())
            n_rows += 1
        of_day = digest.copy()
        of_day.update(day.isoformat().encode())
        fingerprints[day] = of_day.hexdigest()
    return fingerprints
