"""What Dagster's pages show of a day: tables beside numbers, and what the warehouse's columns hold.

No id of a person is ever among them: Dagster keeps its history for good.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
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


# Of the assets that are tables, their columns: type in DuckDB, what it holds, and from what of
# `raw_logs` it comes.
TABLES: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    files("mom_pipeline").joinpath("defs/columns.toml").read_text("utf-8")
)


def table_metadata(asset: str) -> dict[str, Any]:
    """What the columns of an asset hold that is a table; nothing for others."""
    columns = [dg.TableColumn(name, of[0], of[1]) for name, of in TABLES.get(asset, {}).items()]
    shown = {"dagster/table_name": asset, "dagster/column_schema": dg.TableSchema(columns)}
    return shown if columns else {}


def lineage_metadata(asset: str, logs: dg.AssetKey) -> dict[str, Any]:
    """Where the columns come from: Dagster reads it from the newest materialization."""
    lineage = {
        name: [dg.TableColumnDep(logs, source) for source in of[2:]]
        for name, of in TABLES.get(asset, {}).items()
        if of[2:]
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}
