"""How times are written: the expressions that read them, and which of them fits a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

# Setting -> expression over `time_text`, and the pattern of what it may read. DuckDB casts more
# than that: 2024/03/01, 24:00:00, "epoch", 1_709_287_200.
_OFFSET = r"(?:Z|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9](?::[0-5][0-9])?)?)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[ T]{_CLOCK}{_OFFSET}?)?"
_EPOCH = r"-?[0-9]+(?:\.[0-9]+)?"
_WIDE = "TRY_CAST(time_text AS DECIMAL({}, {}))::DECIMAL(28, 6)"  # no product overflows it
_NAMED = {
    "iso": ("TRY_CAST(time_text AS TIMESTAMPTZ)", _ISO),
    "epoch_s": (f"make_timestamptz((1000000 * {_WIDE.format(16, 6)})::BIGINT)", _EPOCH),
    "epoch_ms": (f"make_timestamptz((1000 * {_WIDE.format(18, 3)})::BIGINT)", _EPOCH),
}
_PATTERN_TIME = """
    CASE WHEN lower(trim(time_text)) NOT IN ('epoch', 'infinity', '-infinity')
        AND regexp_matches(time_text, $time_form{n})
    THEN try_strptime(time_text, $time_pattern{n})::TIMESTAMPTZ END
"""
_CLOCKS = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", " %H:%M:%S.%f")
_DATES = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d"),
    *("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"),
    *("%d-%b-%y", "%Y%m%d"),
)
# In the order of preference where several fit alike.
FORMATS = (*_NAMED, *(day + clock for day in _DATES for clock in _CLOCKS))
# Numbers are times only within these years: 20240301 is a day, 12345 is none.
_FIRST, _LAST = datetime(1990, 1, 1), datetime(2100, 1, 1)
# Values that a format is tried on first; most formats read none of them.
_FEW = 20


def event_time_sql(timestamp_format: str, number: str = "") -> tuple[str, dict[str, object]]:
    """Expression from `time_text` to a TIMESTAMPTZ, NULL where it is not understood.

    number: of the parameters, where several formats stand in one query.
    """
    if timestamp_format in _NAMED:
        expression, form = _NAMED[timestamp_format]
        sql = f"CASE WHEN regexp_full_match(time_text, $time_form{number}) THEN {expression} END"
        return sql, {f"time_form{number}": form}
    end = f"{_OFFSET}$" if timestamp_format.endswith("%z") else ""
    parameters: dict[str, object] = {
        f"time_pattern{number}": timestamp_format,
        f"time_form{number}": end,
    }
    return _PATTERN_TIME.replace("{n}", number), parameters


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
    few = values[:: max(len(values) // _FEW, 1)]
    fits = _fits(values, [fit.name for fit in _fits(few, FORMATS) if fit.share])
    good = [fit for fit in fits if fit.share > 0.5]
    return sorted(good, key=lambda fit: (-round(fit.share, 3), -fit.in_order))


def _fits(values: Sequence[str], formats: Sequence[str]) -> list[FittingFormat]:
    """Return how well formats read some times, asked of DuckDB as the readers ask it."""
    if not values or not formats:
        return []
    expressions = []
    parameters: dict[str, object] = {"v": values, "first": str(_FIRST), "last": str(_LAST)}
    for number, name in enumerate(formats):
        expression, of_format = event_time_sql(name, str(number))
        expressions.append(expression)
        parameters |= of_format
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute(
            f"""
            WITH times AS (SELECT generate_subscripts($v, 1) AS line, unnest($v) AS time_text),
            parsed AS (
                SELECT line, generate_subscripts(ts, 1) AS format, unnest(ts) AS t
                FROM (SELECT line, [{", ".join(expressions)}] AS ts FROM times)
            )
            SELECT format, count(*), count(*) FILTER (WHERE t >= before)
            FROM (
                SELECT format, t, lag(t) OVER (PARTITION BY format ORDER BY line) AS before
                FROM parsed WHERE t >= $first::TIMESTAMPTZ AND t < $last::TIMESTAMPTZ
            )
            GROUP BY format ORDER BY format
            """,  # noqa: S608 - our own expressions
            parameters,
        ).fetchall()
    return [FittingFormat(formats[n - 1], read / len(values), order) for n, read, order in rows]


def format_advice(values: Sequence[str], option: str, present: str) -> str:
    """Return what to say about times that were not understood: the format that would fit.

    option: what sets the format, such as "--timestamp-format".
    """
    fits = [fit for fit in fitting_formats(values) if fit.name != present]
    if not fits:
        return ""
    return f"The times are not written as {present!r}: {option} {fits[0].name!r} would read them"
