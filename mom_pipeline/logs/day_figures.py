"""Figures of a delivery day, for `objections` to compare with those of the days before.

One query: linear in the day's rows, plus a scan of the ids of the days before.
"""

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Self

from mom_pipeline.warehouse.connection import Connection, load_sql


@dataclass(frozen=True)
class DayFigures:
    """What a delivery day's rows look like beside those of the admitted days before it.

    days_before: admitted days with rows.
    different_rows: rows that differ in user, item or time.
    known_users: with rows before.  lately_users: in the week before.  most_rows: of one user.
    lines, rejected: of the day's files.  hours: users in each hour of the day.
    Means over the day's users, each of which counts once: log_rows_per_user; new_items, the
    share of the user's items that nobody had before; taken_again, of known users the share of
    items that they had before; log_item_share, of a known item's share in the rows of four weeks.
    """

    day: date
    days_before: int
    rows: int
    different_rows: int
    users: int
    known_users: int
    lately_users: int
    most_rows: int
    lines: int
    rejected: int
    log_rows_per_user: float
    new_items: float
    taken_again: float
    log_item_share: float
    hours: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return {**asdict(self), "day": self.day.isoformat(), "hours": list(self.hours)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        day, hours = date.fromisoformat(values["day"]), tuple(values["hours"])
        return cls(**{**values, "day": day, "hours": hours})


def day_figures(connection: Connection, day: date) -> DayFigures:
    """Return the figures of a delivery day from `raw_logs`, `admitted_logs` and the ledger."""
    cursor = connection.execute(load_sql("logs/day_figures.sql"), {"day": day.isoformat()})
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    # Rounded: the last digits of a sum depend on the order in which threads add.
    values: dict[str, Any] = {
        name: round(value, 9) if isinstance(value, float) else value or 0
        for name, value in zip(names, row, strict=True)
    }
    values["hours"] = tuple(values["hours"])
    return DayFigures(day=day, **values)
