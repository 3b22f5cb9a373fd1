"""Dictionaries: from text ids to the stable positions of arrays."""

from datetime import date
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mom_pipeline.warehouse.connection import Connection, load_sql, scalar

Kind = Literal["user", "item"]
# In place of an id that was erased: no event has it, and its position is never given again.
ERASED = ""
KINDS: tuple[Kind, Kind] = ("user", "item")  # the only identifiers put into SQL below


def extend_dictionaries(connection: Connection, day: date) -> None:
    """Give positions to all ids admitted up to a day; existing positions never change."""
    for kind in KINDS:
        for name in ("extend_dictionary", "earlier_first_days"):
            sql = load_sql(f"warehouse/{name}.sql").replace("{kind}", kind)
            connection.execute(sql, {"day": day.isoformat()})


def forget_positions(connection: Connection, first: date) -> None:
    """Take back positions from a day on, so that late days end with the arrays of days in order."""
    for kind in KINDS:
        connection.execute(
            f"DELETE FROM {kind}_dictionary WHERE first_day >= $first::DATE",  # noqa: S608
            {"first": first.isoformat()},
        )


def dictionary_size(connection: Connection, kind: Kind, day: date) -> int:
    """Positions 0 … size-1 cover every id that was first delivered up to `day`."""
    return scalar(
        connection,
        f"SELECT coalesce(max(position) + 1, 0) FROM {kind}_dictionary WHERE first_day <= $day",  # noqa: S608
        {"day": day.isoformat()},
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
