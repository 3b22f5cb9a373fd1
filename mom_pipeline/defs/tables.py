"""The tables of the warehouse on Dagster's pages: what a column holds, and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from mom_pipeline.defs.names import Names


@dataclass(frozen=True)
class Column:
    """kind: its type in DuckDB.  holds: in words.  sources: such as "raw_logs.user_id"."""

    kind: str
    holds: str
    sources: tuple[str, ...] = ()


Columns = Mapping[str, Column]

RAW_LOGS: Columns = {
    "source_file": Column("VARCHAR", "name of the log file, below the logs folder"),
    "line": Column("BIGINT", "number of its line, from 1"),
    "delivery_day": Column("DATE", "day in the name of the file: the partition"),
    "event_time": Column("TIMESTAMPTZ", "when the user took the item"),
    "user_id": Column("VARCHAR", "user, exactly as delivered"),
    "item_id": Column("VARCHAR", "item, exactly as delivered"),
    "weight": Column("DECIMAL(18, 6)", "how much the event counts; 1 without a weight"),
}
_USER, _ITEM = "raw_logs.user_id", "raw_logs.item_id"
_TAKEN = (_USER, _ITEM, "raw_logs.delivery_day")
RECOMMENDATIONS: Columns = {
    "model": Column("VARCHAR", "version of the model in use, whose lists these are"),
    "user_id": Column("VARCHAR", "whose list it is", (_USER,)),
    "rank": Column("INTEGER", "place in the list; 1 is the best", (_USER, _ITEM)),
    "item_id": Column("VARCHAR", "what is recommended", (_ITEM,)),
    "score": Column("DOUBLE", "score of the item for the user", (_USER, _ITEM)),
    "reason": Column("VARCHAR", "what contributed most: component, item, or popularity", (_ITEM,)),
}
EVALUATION_METRICS: Columns = {
    "day": Column("DATE", "last day of the test period: the partition"),
    "model_day": Column("DATE", "day of the model that is scored"),
    "ranking": Column("VARCHAR", "the model's ranking, or popularity"),
    "cutoff": Column("INTEGER", "length of the lists"),
    "precision_at_k": Column("DOUBLE", "share of a list that was taken", _TAKEN),
    "recall_at_k": Column("DOUBLE", "share of what was taken in the list", _TAKEN),
    "map_at_k": Column("DOUBLE", "mean average precision", _TAKEN),
    "ndcg_at_k": Column("DOUBLE", "normalized discounted gain", _TAKEN),
    "users": Column("INTEGER", "users who were scored", (_USER,)),
}


TABLES = {
    "raw_logs": RAW_LOGS,
    "recommendations": RECOMMENDATIONS,
    "evaluation_metrics": EVALUATION_METRICS,
}


def table_metadata(asset: str) -> dict[str, Any]:
    """Return the metadata of an asset that keeps a table of the warehouse; none for others."""
    columns = TABLES.get(asset, {})
    if not columns:
        return {}
    described = [dg.TableColumn(key, c.kind, c.holds) for key, c in columns.items()]
    return {"dagster/table_name": asset, "dagster/column_schema": dg.TableSchema(described)}


def lineage_metadata(asset: str, names: Names) -> dict[str, Any]:
    """Return where the columns come from: Dagster reads it from the newest materialization."""
    lineage = {
        key: [_dep(source, names) for source in column.sources]
        for key, column in TABLES.get(asset, {}).items()
        if column.sources
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}


def _dep(source: str, names: Names) -> dg.TableColumnDep:
    asset, _, column = source.partition(".")
    return dg.TableColumnDep(names.key(asset), column)
