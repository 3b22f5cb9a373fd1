"""The table `finished_days`: assets that keep no arrays, and what their days were made from.

It stands beside the lists and metrics that it is about, so that a warehouse that is restored or
made anew does not claim what it does not hold.
"""

from collections.abc import Mapping
from datetime import date

from mom_pipeline.warehouse.connection import Connection


def record_finished(connection: Connection, asset: str, made_from: Mapping[date, str]) -> None:
    """Note that an asset has finished days. made_from: day -> fingerprint of its arrays."""
    for day, fingerprint in made_from.items():
        values = {"asset": asset, "day": day.isoformat(), "made_from": fingerprint}
        connection.execute(
            "DELETE FROM finished_days WHERE asset = $asset AND day = $day::DATE",
            {"asset": asset, "day": day.isoformat()},
        )
        connection.execute(
            "INSERT INTO finished_days VALUES ($asset, $day::DATE, $made_from)", values
        )


def finished_days(connection: Connection) -> dict[tuple[str, date], str]:
    """Return what every finished day of every asset was made from."""
    rows = connection.execute("SELECT asset, day, made_from FROM finished_days").fetchall()
    return {(asset, day): made_from for asset, day, made_from in rows}
