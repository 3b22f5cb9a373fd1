"""The pairs delivered in a test period, and the table `evaluation_metrics`."""

from dataclasses import astuple, dataclass
from datetime import date

import numpy as np
from scipy.sparse import csr_array, get_index_dtype

from mom_pipeline.core.evaluation.metrics import RankingMetrics
from mom_pipeline.core.interactions import NewArray
from mom_pipeline.warehouse.connection import Connection, Warehouse
from mom_pipeline.warehouse.dictionaries import KINDS, dictionary_size
from mom_pipeline.warehouse.pairs import StoredPairs, stored_pairs


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
    warehouse: Warehouse,
    after: date,
    until: date,
    new_array: NewArray = np.empty,
) -> csr_array:
    """1 for every user and item in the deliveries after one day and up to another, unfiltered.

    new_array: makes the arrays of the pairs, which may lie in files; see `matrix_as_of`.
    """
    query = (
        "SELECT DISTINCT users.position::INTEGER AS user_position, "
        "items.position::INTEGER AS item_position FROM admitted_logs "
        "JOIN user_dictionary AS users USING (user_id) "
        "JOIN item_dictionary AS items USING (item_id) "
        "WHERE delivery_day > $after::DATE AND delivery_day <= $until::DATE "
        "AND users.first_day <= $until::DATE AND items.first_day <= $until::DATE "
        "ORDER BY user_position, item_position"
    )
    period = {"after": after.isoformat(), "until": until.isoformat()}
    with warehouse.reading() as connection:
        n_users, n_items = (dictionary_size(connection, kind, until) for kind in KINDS)
        with stored_pairs(connection, query, period) as pairs:
            return _ones(pairs, (n_users, n_items), new_array)


def _ones(pairs: StoredPairs, shape: tuple[int, int], new_array: NewArray) -> csr_array:
    """1 for every pair, (users, items)."""
    index = np.dtype(get_index_dtype(maxval=max(pairs.n, *shape)))
    sizes, columns = np.zeros(shape[0], dtype=np.int64), new_array((pairs.n,), index)
    start = 0
    for users, items in pairs.blocks("user_position", "item_position"):
        sizes += np.bincount(users, minlength=shape[0])
        columns[start : (start := start + len(items))] = items
    ones = new_array((pairs.n,), np.dtype(np.float64))
    ones[:] = 1.0
    indptr = np.append(0, np.cumsum(sizes)).astype(index)
    return csr_array((ones, columns, indptr), shape=shape)


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
