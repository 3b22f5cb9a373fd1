"""The users whose row of the interaction matrix differs between two days."""

from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from mom_pipeline.core.errors import InvalidSetting
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql, scalar
from mom_pipeline.warehouse.dictionaries import extend_dictionaries
from mom_pipeline.warehouse.window import state_fingerprint, window_parameters


def changed_users(warehouse: Warehouse, day: date, since: date | None = None) -> NDArray[np.int64]:
    """Positions of the users whose filtered row as of `day` differs from that as of `since`
    (the day before, unless told).

    Exact, ascending. The work grows with the changed users when `matrix_as_of(since)` was
    computed from the same deliveries, because it leaves the users per item behind; otherwise
    these are counted anew.
    """
    settings = warehouse.settings
    since = since or day - timedelta(days=1)
    if since >= day:
        raise InvalidSetting(
            f"changed users since {since} were asked for {day}; choose a later day"
        )
    with warehouse.reading() as connection:
        extend_dictionaries(connection, day)
        _provide_support(connection, settings, since)
        found = connection.execute(
            load_sql("warehouse/changed_users.sql"),
            window_parameters(settings, day)
            | window_parameters(settings, since, prefix="before_")
            | {
                "min_item_users": settings.matrix.min_item_users,
                "min_user_items": settings.matrix.min_user_items,
            },
        ).fetchnumpy()
    return np.asarray(found["position"], dtype=np.int64)


def _provide_support(connection: Connection, settings: Settings, day: date) -> None:
    """`support_before`: the users of every item as of `day`, as it was kept or counted anew."""
    kept = {"day": day.isoformat(), "fingerprint": state_fingerprint(connection, settings, day)}
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE support_before AS SELECT item_id, n_users "
        "FROM item_support WHERE day = $day::DATE AND fingerprint = $fingerprint",
        kept,
    )
    if not scalar(connection, "SELECT count(*) FROM support_before"):
        connection.execute(
            load_sql("warehouse/count_support.sql"), window_parameters(settings, day)
        )
