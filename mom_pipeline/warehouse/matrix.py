"""The interaction matrix as of a day: filtered, sparse, with stable positions."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
from scipy.sparse import coo_array, csr_array

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
    fingerprint: of the deliveries and settings that it was made from.
    """

    day: date
    interactions: csr_array
    fingerprint: str


def matrix_as_of(warehouse: Warehouse, day: date) -> DayMatrix:
    """Every event delivered up to `day` whose event day lies in the window that ends with it.

    Linear in the events of the window. Items with at least `min_item_users` users are kept,
    then users with at least `min_user_items` of these items.
    """
    settings = warehouse.settings
    with reading_dictionaries(warehouse, day) as connection:
        state = state_fingerprint(connection, settings, day)
        counts = _counts(connection, settings, day)
    return DayMatrix(day, _filtered(counts, settings.matrix), state)


def _counts(connection: Connection, settings: Settings, day: date) -> csr_array:
    """Summed weights of all pairs of the window, in millionths (int64), unfiltered."""
    events = connection.execute(
        load_sql("warehouse/window_events.sql"), _window(settings, day)
    ).fetchnumpy()
    shape = (dictionary_size(connection, "user", day), dictionary_size(connection, "item", day))
    positions = (events["user_position"], events["item_position"])
    counts = coo_array((events["millionths"], positions), shape=shape).tocsr()
    counts.sort_indices()
    return counts


def _filtered(counts: csr_array, settings: MatrixSettings) -> csr_array:
    """Drop rare items, then users with few of the rest; positions stay."""
    n_users, n_items = counts.shape
    rows = np.repeat(np.arange(n_users), np.diff(counts.indptr))
    keep = (np.bincount(counts.indices, minlength=n_items) >= settings.min_item_users)[
        counts.indices
    ]
    items_per_user = np.bincount(rows[keep], minlength=n_users)
    keep &= (items_per_user >= settings.min_user_items)[rows]
    indptr = np.zeros(n_users + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows[keep], minlength=n_users), out=indptr[1:])
    weights = counts.data[keep] / _MILLIONTHS
    return csr_array((weights, counts.indices[keep], indptr), shape=counts.shape)


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
