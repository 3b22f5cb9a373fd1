"""What a run left behind, for people: metrics against popularity, and some lists."""

from datetime import date
from typing import Any

from mom_pipeline.cli.terminal import print_table
from mom_pipeline.settings import Settings
from mom_pipeline.warehouse import recommendations as lists
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.evaluations import MetricsRow, metrics_until

_SHOWN_CUTOFFS = (5, 10, 20, 40, 100)
_USERS, _ITEMS = 4, 5


def results(settings: Settings, day: date) -> dict[str, Any]:
    """Metrics of the newest evaluation up to a day, and lists of some users."""
    with Warehouse(settings).reading() as connection:
        rows = metrics_until(connection, day)
        newest = [row for row in rows if row.day == rows[-1].day]
        return {
            "day": day.isoformat(),
            "metrics": [vars(row) for row in newest],
            "recommendations": _lists(connection, day),
        }


def print_results(settings: Settings, day: date) -> dict[str, Any]:
    """Print them as tables."""
    shown = results(settings, day)
    metrics = [MetricsRow(**row) for row in shown["metrics"]]
    if metrics:
        title = (
            f"Model of {metrics[0].model_day} on what {metrics[0].users:,} users took up to "
            f"{metrics[0].day}"
        )
        ordered = sorted(metrics, key=lambda row: (row.cutoff, row.ranking))
        lines = [
            (row.ranking, row.cutoff, *(f"{v:.4f}" for v in (row.precision, row.recall, row.map)))
            for row in ordered
            if row.cutoff in _SHOWN_CUTOFFS
        ]
        print_table(title, ["ranking", "at", "precision", "recall", "MAP"], lines)
    print_table(
        f"Some users on {day}",
        ["user", "took last", "recommended"],
        [(r["user"], r["history"], r["recommended"]) for r in shown["recommendations"]],
    )
    return shown


def _lists(connection: Connection, day: date) -> list[dict[str, str]]:
    return [
        {
            "user": user,
            "history": ", ".join(lists.latest_items(connection, user, day, _ITEMS)),
            "recommended": ", ".join(
                item for _, item, _ in lists.list_of(connection, user, day)[:_ITEMS]
            ),
        }
        for user in lists.sample_users(connection, day, _USERS)
    ]
