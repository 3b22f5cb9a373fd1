"""Which format the times of a file are written in, asked of DuckDB as the readers will ask it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from mom_pipeline.logs.readers import event_time_sql
from mom_pipeline.warehouse.connection import Connection

_CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", " %H:%M:%S.%f")
_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"),
    *("%d-%b-%y", "%Y%m%d"),
)
# In the order of preference where several fit alike.
FORMATS = ("iso", "epoch_s", "epoch_ms", *(day + clock for day in _DATES for clock in _CLOCKS))
# Numbers are times only within these years: 20240301 is a day, 12345 is none.
_FIRST, _LAST = datetime(1990, 1, 1), datetime(2100, 1, 1)


@dataclass(frozen=True)
class FittingFormat:
    """A format, the share of the values that it reads, and how many pairs of neighbours it
    leaves in order: logs mostly are.
    """

    name: str
    share: float
    in_order: int


def fitting_formats(values: Sequence[str]) -> list[FittingFormat]:
    """Return the formats that read most of some times, the best first; [] where none reads half.

    values: in the order of the file; empty ones are skipped.
    """
    values = [value for value in values if value]
    if not values:
        return []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE TABLE times (number INTEGER, time_text VARCHAR)")
        connection.execute(
            "INSERT INTO times SELECT generate_subscripts($v, 1), unnest($v)", {"v": values}
        )
        fits = [_fit(connection, name, len(values)) for name in FORMATS]
    good = [fit for fit in fits if fit.share > 0.5]
    return sorted(good, key=lambda fit: (-round(fit.share, 3), -fit.in_order))


def _fit(connection: Connection, name: str, n: int) -> FittingFormat:
    expression, parameters = event_time_sql(name)
    read, in_order = connection.execute(
        f"""
        SELECT count(t), count(*) FILTER (WHERE t >= before)
        FROM (
            SELECT t, lag(t) OVER (ORDER BY number) AS before
            FROM (SELECT number, {expression} AS t FROM times)
            WHERE t >= $first::TIMESTAMPTZ AND t < $last::TIMESTAMPTZ
        )
        """,  # noqa: S608 - one of our own expressions
        {**parameters, "first": _FIRST.isoformat(), "last": _LAST.isoformat()},
    ).fetchall()[0]
    return FittingFormat(name, read / n, in_order)


def format_advice(values: Sequence[str], option: str, present: str) -> str:
    """Return what to say about times that were not understood: the format that would fit.

    option: what sets the format, such as "--timestamp-format".
    """
    fits = [fit for fit in fitting_formats(values) if fit.name != present]
    if not fits:
        return ""
    return f"The times are not written as {present!r}: {option} {fits[0].name!r} would read them"
