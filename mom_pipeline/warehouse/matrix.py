"""The interaction matrix as of a day: filtered, sparse, with stable positions."""

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csr_array

from mom_pipeline.settings import MatrixSettings, Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql, transaction
from mom_pipeline.warehouse.dictionaries import dictionary_size, extend_dictionaries
from mom_pipeline.warehouse.window import state_fingerprint, window_parameters

_MILLIONTHS = 1_000_000
_SUPPORT_DAYS_KEPT = 3


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


def matrix_as_of(warehouse: Warehouse, day: date, *, keep_support: bool = True) -> DayMatrix:
    """Every event delivered up to `day` whose event day lies in the window that ends with it.

    Linear in the events of the window. Items with at least `min_item_users` users are kept,
    then users with at least `min_user_items` of these items.
    keep_support: leave the users per item behind for `changed_users` of the day after, in place
        of those of later days; a look back at an old day does without.
    """
    settings = warehouse.settings
    with warehouse.reading() as connection:
        extend_dictionaries(connection, day)
        fingerprint = state_fingerprint(connection, settings, day)
        counts = _counts(connection, settings, day)
        if keep_support:
            _store_support(connection, counts, day, fingerprint)
    return DayMatrix(day, _filtered(counts, settings.matrix), fingerprint)


def _counts(connection: Connection, settings: Settings, day: date) -> csr_array:
    """Summed weights of all pairs of the window, in millionths (int64), unfiltered."""
    events = connection.execute(
        load_sql("warehouse/window_events.sql"), window_parameters(settings, day)
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


def _store_support(connection: Connection, counts: csr_array, day: date, fingerprint: str) -> None:
    """Keep the users per item as of `day`, for the changed users of the day after."""
    n_users = np.bincount(counts.indices, minlength=counts.shape[1])
    support = pd.DataFrame({"position": np.arange(len(n_users)), "n_users": n_users})
    connection.register("support", support)
    with transaction(connection):
        connection.execute(
            "DELETE FROM item_support WHERE day >= $day::DATE OR day < $day::DATE - $days_kept",
            {"day": day.isoformat(), "days_kept": _SUPPORT_DAYS_KEPT},
        )
        connection.execute(
            "INSERT INTO item_support SELECT $day::DATE, $fingerprint, item_id, n_users "
            "FROM support JOIN item_dictionary USING (position) WHERE n_users > 0",
            {"day": day.isoformat(), "fingerprint": fingerprint},
        )
    connection.unregister("support")
