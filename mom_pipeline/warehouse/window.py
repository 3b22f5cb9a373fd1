"""The events that make the state as of a day, and a fingerprint of that state."""

import hashlib
from datetime import date, datetime, timedelta

from mom_pipeline.settings import Settings, fingerprint
from mom_pipeline.warehouse.connection import Connection

_BEFORE_ALL_EVENTS = "1900-01-01 00:00:00+00"


def window_parameters(settings: Settings, day: date, prefix: str = "") -> dict[str, object]:
    """Values for `delivery_day <= $day AND event_time >= $begin AND event_time < $end`.

    The window ends with the last moment of `day` in the declared zone. Bounds are instants, so
    that no event has to be converted to local time.
    """
    begin = _BEFORE_ALL_EVENTS
    if settings.matrix.window_days:
        begin = _midnight(settings, day - timedelta(days=settings.matrix.window_days - 1))
    return {
        f"{prefix}day": day.isoformat(),
        f"{prefix}begin": begin,
        f"{prefix}end": _midnight(settings, day + timedelta(days=1)),
    }


def _midnight(settings: Settings, day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=settings.logs.zone).isoformat()


def state_fingerprint(connection: Connection, settings: Settings, day: date) -> str:
    """Changes whenever the matrix as of `day` may: other deliveries up to it, other settings."""
    rows = connection.execute(
        "SELECT source_file, delivery_day::VARCHAR, sha256, settings FROM ingest_ledger "
        "WHERE delivery_day <= $day ORDER BY source_file",
        {"day": day.isoformat()},
    ).fetchall()
    digest = hashlib.sha256(f"{day} {settings.logs.timezone} ".encode())
    digest.update(fingerprint(settings.matrix).encode())
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()
