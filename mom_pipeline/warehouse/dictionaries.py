"""Append-only dictionaries: from text ids to the stable positions of arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mom_pipeline.warehouse.connection import Connection, Warehouse, load_sql, scalar

Kind = Literal["user", "item"]
# In place of an id that was erased: no event has it, and its position is never given again.
ERASED = ""
KINDS: tuple[Kind, Kind] = ("user", "item")  # the only identifiers put into SQL below


@contextmanager
def reading_dictionaries(warehouse: Warehouse, day: date) -> Iterator[Connection]:
    """A read-only connection; before it, the dictionaries take in what they do not hold yet."""
    with warehouse.reading() as connection:
        is_complete = not _new_sources(connection, day)
        if is_complete:
            yield connection
    if not is_complete:
        with warehouse.connect() as connection:
            extend_dictionaries(connection, day)
        with warehouse.reading() as connection:
            yield connection


def extend_dictionaries(connection: Connection, day: date) -> None:
    """Give positions to all ids delivered up to `day`; existing positions never change."""
    if not _new_sources(connection, day):
        return
    for kind in KINDS:
        for name in ("warehouse/extend_dictionary.sql", "warehouse/earlier_first_days.sql"):
            connection.execute(load_sql(name).replace("{kind}", kind))
    connection.execute(
        "DELETE FROM dictionary_sources WHERE source_file IN (SELECT source_file FROM new_sources)"
    )
    connection.execute("INSERT INTO dictionary_sources FROM new_sources")


def renumber(connection: Connection, first: date) -> bool:
    """Number the ids first delivered on a day or later as if all days had come in order.

    Returns whether a position changed: then no array of these days may be used again. So days
    that come late or are corrected end with the same arrays as days that come in order.
    """
    moved = 0
    for kind in KINDS:
        of_day = {"first": first.isoformat()}
        connection.execute(load_sql("warehouse/ids_in_order.sql").replace("{kind}", kind), of_day)
        moved += scalar(
            connection,
            f"SELECT count(*) FROM (SELECT * FROM {kind}_dictionary "  # noqa: S608
            "WHERE first_day >= $first::DATE EXCEPT FROM ids_in_order)",
            of_day,
        )
        connection.execute(
            f"DELETE FROM {kind}_dictionary WHERE first_day >= $first::DATE",  # noqa: S608
            of_day,
        )
        connection.execute(f"INSERT INTO {kind}_dictionary FROM ids_in_order")
    return moved > 0


def _new_sources(connection: Connection, day: date) -> int:
    """Fill `new_sources` with the deliveries whose ids the dictionaries do not hold yet."""
    connection.execute(load_sql("warehouse/new_sources.sql"), {"day": day.isoformat()})
    return scalar(connection, "SELECT count(*) FROM new_sources")


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


def ids_of(connection: Connection, kind: Kind, positions: NDArray[np.int64]) -> dict[int, str]:
    """The ids at some positions; an id that was erased is missing."""
    rows = connection.execute(
        f"SELECT position, {kind}_id FROM {kind}_dictionary "  # noqa: S608 - one of two names
        f"WHERE position IN (SELECT unnest($positions::BIGINT[])) AND {kind}_id <> $erased",
        {"positions": [int(position) for position in positions], "erased": ERASED},
    ).fetchall()
    return dict(rows)
