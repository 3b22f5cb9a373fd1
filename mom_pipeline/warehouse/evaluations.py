"""The pairs delivered in a test period, and the table `evaluation_metrics`."""

from dataclasses import astuple, dataclass
from datetime import date

import numpy as np
from scipy.sparse import coo_array, csr_array

from mom_pipeline.core.evaluation.metrics import RankingMetrics
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.dictionaries import dictionary_size, reading_dictionaries


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


def delivered_pairs(
    warehouse: Warehouse, after: date, until: date, *, kept_out: bool = False
) -> csr_array:
    """1 for every user and item in the deliveries after one day and up to another, unfiltered.

    kept_out: also those of days that are kept out, as far as other days know their ids.
    """
    table = "raw_logs" if kept_out else "admitted_logs"
    with reading_dictionaries(warehouse, until) as connection:
        pairs = connection.execute(
            "SELECT DISTINCT users.position::INTEGER AS user_position, "  # noqa: S608 - one of two
            f"items.position::INTEGER AS item_position FROM {table} "
            "JOIN user_dictionary AS users USING (user_id) "
            "JOIN item_dictionary AS items USING (item_id) "
            "WHERE delivery_day > $after::DATE AND delivery_day <= $until::DATE "
            "AND users.first_day <= $until::DATE AND items.first_day <= $until::DATE",
            {"after": after.isoformat(), "until": until.isoformat()},
        ).fetchnumpy()
        users, items = (dictionary_size(connection, kind, until) for kind in ("user", "item"))
    positions = (pairs["user_position"], pairs["item_position"])
    matrix = coo_array((np.ones(len(positions[0])), positions), shape=(users, items)).tocsr()
    matrix.sort_indices()
    return matrix


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
