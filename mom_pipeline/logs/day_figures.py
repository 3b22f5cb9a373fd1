"""Figures of a delivery day, for `objections` to compare with those of the days before.

Linear in the day's rows, plus a scan of the ids of the quarter before.
"""

from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Self

from mom_pipeline.warehouse.connection import Connection, load_sql

# What is known is what was seen in a quarter: the cost does not grow with the log, and the figures
# of an old log are comparable with those of a young one.
_PERIODS = {"quarter": 91, "month": 28, "week": 7}


@dataclass(frozen=True)
class DayFigures:
    """What a delivery day's rows look like beside those of the admitted days before it.

    days_before: admitted days with rows.
    different_rows: rows that differ in user, item or time.
    known_users: with rows in the quarter before.  lately_users: in the week before.
    most_rows: of one user.
    lines, rejected: of the day's files.  hours: users in each hour of the day.
    Means over the day's users, each of which counts once: log_rows_per_user; new_items, the
    share of the user's items that nobody had in the quarter before; taken_again, of known users
    the share of items that they had themselves; log_item_share, of known items the share in the
    rows of four weeks.
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
    newest, days_before = connection.execute(
        "SELECT max(delivery_day), count(DISTINCT delivery_day) FROM admitted_logs "
        "WHERE delivery_day < $day::DATE",
        {"day": day.isoformat()},
    ).fetchall()[0]
    # Counted back from the newest day before: a week without any file changes nothing.
    begins = {
        name: ((newest or day) - timedelta(days=days - 1)).isoformat()
        for name, days in _PERIODS.items()
    }
    cursor = connection.execute(
        load_sql("logs/day_figures.sql"), {"day": day.isoformat(), **begins}
    )
    names = [column[0] for column in cursor.description or []]
    (row,) = cursor.fetchall()
    # Rounded: the last digits of a sum depend on the order in which threads add.
    values: dict[str, Any] = {
        name: round(value, 9) if isinstance(value, float) else value or 0
        for name, value in zip(names, row, strict=True)
    }
    values["hours"] = tuple(values["hours"])
    return DayFigures(day=day, days_before=days_before, **values)
