"""What Dagster's pages show of a day: tables beside numbers, and what the warehouse's columns hold.

No id of a person is ever among them: Dagster keeps its history for good.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import numpy as np

from mom_pipeline.core.algorithm.decompose import Components
from mom_pipeline.core.moments.days import AnchoredCooccurrences
from mom_pipeline.core.ranking.topn import top_n
from mom_pipeline.core.types import Array

_TOP_PAIRS, _TOP_COMPONENTS, _TOP_ITEMS = 10, 25, 8


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | str:
    """Rows of equal keys as a table; a dash when there are none."""
    if not rows:
        return "–"
    kinds = {bool: "bool", int: "int", float: "float"}
    columns = [
        dg.TableColumn(name, kinds.get(type(value), "string")) for name, value in rows[0].items()
    ]
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def top_pairs(pairs: AnchoredCooccurrences | None, labels: Array) -> dg.TableMetadataValue | str:
    """The items that go together most often, with their share of all co-occurrences."""
    if pairs is None or not pairs.counts.n_pairs:
        return "–"
    upper = pairs.counts.upper.tocoo()
    units = np.where(upper.row < upper.col, upper.data, 0).astype(np.float64)
    (best,), (sums,) = top_n(units[None], _TOP_PAIRS)
    return table(
        [
            {
                "item": str(labels[upper.row[k]]),
                "other_item": str(labels[upper.col[k]]),
                "share": round(n / float(units.sum()), 6),
            }
            for k, n in zip(best.tolist(), sums.tolist(), strict=True)
            if n > 0
        ]
    )


def component_table(
    components: Components, moved: Array, agreement: Array, labels: Array
) -> dg.TableMetadataValue | str:
    """Pi, lambda, drift, agreement and the most probable items of the heaviest components."""
    O, pi, lambdas = components.item_probs, components.weights, components.decomposition.lambdas
    shown = np.sort(np.argsort(-pi, kind="stable")[:_TOP_COMPONENTS])
    best, _ = top_n(O[:, shown].T, _TOP_ITEMS)
    return table(
        [
            {
                "component": k + 1,
                "pi": round(float(pi[k]), 4),
                "lambda": round(float(lambdas[k]), 4),
                "drift": round(float(moved[k]), 4),
                "agreement": round(float(agreement[k]), 3),
                "top_items": ", ".join(str(labels[y]) for y in items),
            }
            for k, items in zip(shown.tolist(), best, strict=True)
        ]
    )


@dataclass(frozen=True)
class Column:
    """kind: its type in DuckDB.  holds: in words.  sources: such as "raw_logs.user_id"."""

    kind: str
    holds: str
    sources: tuple[str, ...] = ()


_USER, _ITEM = "raw_logs.user_id", "raw_logs.item_id"
_TAKEN = (_USER, _ITEM, "raw_logs.delivery_day")
# The tables of the warehouse that are assets.
TABLES: Mapping[str, Mapping[str, Column]] = {
    "raw_logs": {
        "source_file": Column("VARCHAR", "name of the log file, below the logs folder"),
        "line": Column("BIGINT", "number of its line, from 1"),
        "delivery_day": Column("DATE", "day in the name of the file: the partition"),
        "event_time": Column("TIMESTAMPTZ", "when the user took the item"),
        "user_id": Column("VARCHAR", "user, exactly as delivered"),
        "item_id": Column("VARCHAR", "item, exactly as delivered"),
        "weight": Column("DECIMAL(18, 6)", "how much the event counts; 1 without a weight"),
    },
    "recommendations": {
        "model": Column("VARCHAR", "version of the model in use, whose lists these are"),
        "user_id": Column("VARCHAR", "whose list it is", (_USER,)),
        "rank": Column("INTEGER", "place in the list; 1 is the best", (_USER, _ITEM)),
        "item_id": Column("VARCHAR", "what is recommended", (_ITEM,)),
        "score": Column("DOUBLE", "score of the item for the user", (_USER, _ITEM)),
        "reason": Column("VARCHAR", "what counted most: component, item or popularity", (_ITEM,)),
    },
    "evaluation_metrics": {
        "day": Column("DATE", "last day of the test period: the partition"),
        "model_day": Column("DATE", "day of the model that is scored"),
        "ranking": Column("VARCHAR", "the model's ranking, or popularity"),
        "cutoff": Column("INTEGER", "length of the lists"),
        "precision_at_k": Column("DOUBLE", "share of a list that was taken", _TAKEN),
        "recall_at_k": Column("DOUBLE", "share of what was taken in the list", _TAKEN),
        "map_at_k": Column("DOUBLE", "mean average precision", _TAKEN),
        "ndcg_at_k": Column("DOUBLE", "normalized discounted gain", _TAKEN),
        "users": Column("INTEGER", "users who were scored", (_USER,)),
    },
}


def table_metadata(asset: str) -> dict[str, Any]:
    """What the columns of an asset hold that is a table; nothing for others."""
    if asset not in TABLES:
        return {}
    columns = [dg.TableColumn(name, c.kind, c.holds) for name, c in TABLES[asset].items()]
    return {"dagster/table_name": asset, "dagster/column_schema": dg.TableSchema(columns)}


def lineage_metadata(asset: str, key: Callable[[str], dg.AssetKey]) -> dict[str, Any]:
    """Where the columns come from: Dagster reads it from the newest materialization."""
    lineage = {
        name: [
            dg.TableColumnDep(key(source.split(".")[0]), source.split(".")[1])
            for source in column.sources
        ]
        for name, column in TABLES.get(asset, {}).items()
        if column.sources
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}
