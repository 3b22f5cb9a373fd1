"""The table `evaluation_metrics`."""

from dataclasses import astuple, dataclass
from datetime import date

from mom_pipeline.core.evaluation.metrics import RankingMetrics
from mom_pipeline.warehouse.connection import Connection


@dataclass(frozen=True)
class MetricsRow:
    """One ranking at one cut-off."""

    day: date
    model_day: date
    ranking: str
    cutoff: int
    precision: float
    recall: float
    map: float
    ndcg: float
    users: int


def metrics_rows(
    day: date, model_day: date, rankings: dict[str, RankingMetrics]
) -> list[MetricsRow]:
    """One row for each ranking and cut-off."""
    return [
        MetricsRow(
            day, model_day, name, k, m.precision[k], m.recall[k], m.map[k], m.ndcg[k], m.n_users
        )
        for name, m in rankings.items()
        for k in m.cutoffs
    ]


def replace_metrics(connection: Connection, day: date, rows: list[MetricsRow]) -> None:
    """Store the metrics of a day in place of what it had."""
    connection.execute(
        "DELETE FROM evaluation_metrics WHERE day = $day::DATE", {"day": day.isoformat()}
    )
    if rows:
        connection.executemany(
            "INSERT INTO evaluation_metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [astuple(row) for row in rows],
        )


def metrics_until(connection: Connection, day: date) -> list[MetricsRow]:
    """Every stored row up to a day, in order."""
    rows = connection.execute(
        "SELECT * FROM evaluation_metrics WHERE day <= $day::DATE ORDER BY day, ranking, cutoff",
        {"day": day.isoformat()},
    ).fetchall()
    return [MetricsRow(*row) for row in rows]
