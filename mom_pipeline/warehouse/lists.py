"""The tables `recommendations`, the lists of the model in use, and `evaluation_metrics`."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.evaluation.metrics import RankingMetrics
from mom_pipeline.core.files import replacing, sha256_of, write_bytes
from mom_pipeline.core.ranking.explain import COMPONENT, ITEM, RISING
from mom_pipeline.core.ranking.lists import ReasonedLists
from mom_pipeline.core.types import Array
from mom_pipeline.warehouse.connection import Connection, literal_path, load_sql, records, scalar

# Digits of a stored score: the rank says the order, and these take half of the room.
_DIGITS = 5


def replace_lists(
    connection: Connection,
    model: str,
    user_ids: Array,
    item_ids: Array,
    parts: Iterable[tuple[Array, ReasonedLists]],
) -> int:
    """Store everybody's lists of a model version in place of the present ones; return the rows."""
    for table, ids in (("list_users", user_ids), ("list_items", item_ids)):
        connection.register("ids", {"position": np.arange(len(ids)), "id": ids})
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM ids")
        connection.unregister("ids")
    connection.execute("DELETE FROM recommendations")
    return sum(_insert(connection, model, users, lists) for users, lists in parts)


def _insert(connection: Connection, model: str, users: Array, lists: ReasonedLists) -> int:
    owners, ranks = np.nonzero(lists.items >= 0)
    scores = lists.scores[owners, ranks]
    sizes = np.abs(scores, dtype=np.float64)
    exponents = np.floor(np.log10(sizes, out=np.zeros_like(sizes), where=sizes > 0))
    unit = 10.0 ** (_DIGITS - 1 - exponents)
    rows = {
        "user_position": users[owners],
        "rank": ranks + 1,
        "item_position": lists.items[owners, ranks],
        "score": np.rint(scores * unit) / unit,
        "kind": lists.kinds[owners, ranks],
        "cause": lists.causes[owners, ranks],
    }
    connection.register("new_lists", rows)
    values = {"model": model, "component": COMPONENT, "item": ITEM, "rising": RISING}
    inserted = scalar(connection, load_sql("warehouse/insert_lists.sql"), values)
    connection.unregister("new_lists")
    return inserted


def export_lists(connection: Connection, path: Path, catalogue: Catalogue) -> None:
    """Write all lists to one Parquet file, with the names of the items, whole or not at all."""
    names = [[entry.item, entry.name] for entry in catalogue.items.values()]
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE item_names AS SELECT unnest($ids::VARCHAR[]) AS item_id, "
        "unnest($names::VARCHAR[]) AS item_name",
        {"ids": [item for item, _ in names], "names": [name for _, name in names]},
    )
    with replacing(path) as temporary:
        connection.sql(
            "SELECT model, user_id, rank, item_id, coalesce(item_name, '') AS item_name, score, "
            "reason FROM recommendations LEFT JOIN item_names USING (item_id) "
            "ORDER BY user_id, rank"
        ).write_parquet(str(temporary), compression="zstd")
    write_bytes(checksum_path(path), _checksum_of(path))


def most_listed(connection: Connection, n: int) -> list[dict[str, Any]]:
    """The items that are in most lists, and in how many; no user is named."""
    query = "SELECT item_id AS item, count(*) AS lists FROM recommendations GROUP BY item"
    return records(connection, f"{query} ORDER BY lists DESC, item LIMIT $n", {"n": n})


def listed_items(connection: Connection) -> int:
    """How many different items the lists hold."""
    return scalar(connection, "SELECT count(DISTINCT item_id) FROM recommendations")


def lists_of(connection: Connection, users: Sequence[str]) -> dict[str, list[str]]:
    """The items of the lists of some users, the best first; no entry for no list."""
    rows = connection.execute(
        "SELECT user_id, list(item_id ORDER BY rank) FROM recommendations "
        "WHERE user_id IN (SELECT unnest($users::VARCHAR[])) GROUP BY user_id",
        {"users": list(users)},
    ).fetchall()
    return dict(rows)


def sample_users(connection: Connection, n: int) -> list[str]:
    """Some users with a list: those of the most events, then by id."""
    rows = connection.execute(
        "SELECT user_id FROM raw_logs SEMI JOIN recommendations USING (user_id) "
        "GROUP BY user_id ORDER BY count(*) DESC, user_id LIMIT $n",
        {"n": n},
    ).fetchall()
    return [user for (user,) in rows]


def latest_items(connection: Connection, user_id: str, day: date, n: int) -> list[str]:
    """What a user took last, the newest first; of one time, what stands later in the log."""
    rows = connection.execute(
        "SELECT item_id FROM admitted_logs WHERE user_id = $user AND delivery_day <= $day "
        "AND weight > 0 "
        "GROUP BY item_id ORDER BY max(row(event_time, source_file, line)) DESC LIMIT $n",
        {"user": user_id, "day": day, "n": n},
    ).fetchall()
    return [item for (item,) in rows]


def repeat_share(connection: Connection) -> float:
    """Share of the interactions of a day whose user had the item on an earlier one."""
    query = (
        "SELECT count(DISTINCT (user_id, item_id)), "
        "count(DISTINCT (user_id, item_id, delivery_day)) FROM admitted_logs WHERE weight > 0"
    )
    [(pairs, visits)] = connection.execute(query).fetchall()
    return float(1 - pairs / visits) if visits else 0.0


def checksum_path(path: Path) -> Path:
    """Where the sha256 of an export stands."""
    return path.with_name(f"{path.name}.sha256")


def _checksum_of(path: Path) -> bytes:
    return f"{sha256_of(path)}  {path.name}\n".encode()


def is_whole_export(path: Path) -> bool:
    """Whether an export is what was written, or can be read to its end; True where there is none.

    One of an earlier version has no checksum.
    """
    if not path.exists():
        return True
    with suppress(FileNotFoundError):
        return checksum_path(path).read_bytes() == _checksum_of(path)
    try:
        with duckdb.connect() as connection:
            connection.execute(
                "SELECT bit_xor(hash(t)) FROM read_parquet($path) AS t",
                {"path": literal_path(path)},
            ).fetchall()
    except duckdb.Error:
        return False
    return True


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
    connection.execute("DELETE FROM evaluation_metrics WHERE day = $day", {"day": day})
    if rows:
        connection.executemany(
            "INSERT INTO evaluation_metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [astuple(row) for row in rows],
        )


def metrics_until(connection: Connection, day: date) -> list[MetricsRow]:
    """Every stored row up to a day, in order."""
    rows = connection.execute(
        "SELECT * FROM evaluation_metrics WHERE day <= $day ORDER BY day, ranking, cutoff",
        {"day": day},
    ).fetchall()
    return [MetricsRow(*row) for row in rows]
