"""The pipeline as a component: `dg scaffold defs mom_pipeline.components.RecommenderComponent`.

Attributes may hold `{{ env.NAME }}`, so that no password stands in a file.
"""

from collections.abc import Sequence
from typing import Literal

import dagster as dg
from pydantic import BaseModel, Field

from mom_pipeline.datasets.source import Source
from mom_pipeline.defs.build import build_defs
from mom_pipeline.exports.tables import Output
from mom_pipeline.settings import ColumnSettings, checked


class SourceColumns(dg.Model, dg.Resolvable):
    """What the columns are called there; an empty name: there is none."""

    user: str = "user"
    item: str = "item"
    timestamp: str = "timestamp"
    weight: str = ""
    exclude: str = ""
    event: str = ""


class SourceTable(dg.Model, dg.Resolvable):
    """Where the rows of a day are read."""

    address: str = Field(
        description="postgresql://…, a DuckDB file, or Parquet or CSV files with {day} in the name"
    )
    table: str = Field(default="", description="of a database, or a view, also schema.table")
    columns: SourceColumns = SourceColumns()
    asset: str = Field(
        default="", description="key of the asset that makes it, as a/b; else the table's name"
    )
    start_date: str = Field(default="", description="the first day that is read: 2024-03-01")


class OutputTable(dg.Model, dg.Resolvable):
    """Where everybody's lists or groups are written: an asset of the table's name."""

    what: Literal["lists", "groups"] = "lists"
    to: str = Field(description="postgresql://…, or a .duckdb, .parquet, .csv or .jsonl file")
    table: str = Field(default="", description="also schema.table; else mom_lists or mom_groups")
    n: int | None = Field(default=None, description="of each person; else all")


class FirstAttributes(BaseModel):
    """What `dg scaffold defs` writes into `defs.yaml`, to be corrected there or given."""

    address: str = Field(default="postgresql://localhost/shop", description="where the rows are")
    table: str = Field(default="orders", description="of that database")
    user: str = Field(default="user", description="its column of users")
    item: str = Field(default="item", description="its column of items")
    timestamp: str = Field(default="timestamp", description="its column of times")
    start_date: str = Field(default="", description="the first day that is read")
    to: str = Field(default="", description="where the lists go, the address if it is not given")


class RecommenderScaffolder(dg.Scaffolder[FirstAttributes]):
    """Writes a `defs.yaml` with every attribute that most will have."""

    @classmethod
    def get_scaffold_params(cls) -> type[FirstAttributes]:
        return FirstAttributes

    def scaffold(self, request: dg.ScaffoldRequest[FirstAttributes]) -> None:
        first, name = request.params, request.target_path.name
        columns = first.model_dump(include={"user", "item", "timestamp"})
        source = {"address": first.address, "table": first.table, "columns": columns}
        dg.scaffold_component(
            request,
            {
                "source": source | {"start_date": first.start_date},
                "data_dir": f"data/{name}",
                "key_prefix": name,
                "schedule": "0 3 * * *",
                "outputs": [{"what": "lists", "to": first.to or first.address}],
            },
        )


@dg.scaffold_with(RecommenderScaffolder)
class RecommenderComponent(dg.Component, dg.Model, dg.Resolvable):
    """Lists for every person, every night, from a table of yours into a table of yours."""

    data_dir: str = Field(default="data", description="the data folder, from the project's root")
    key_prefix: str | Sequence[str] = Field(default="", description="of keys, jobs and schedules")
    group: str = Field(default="", description="one group for all assets")
    schedule: str | None = Field(default="0 3 * * *", description="cron of the nightly update")
    source: SourceTable | None = Field(default=None, description="else files put into logs")
    outputs: Sequence[OutputTable] = Field(default=(), description="where lists and groups go")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return build_defs(
            context.project_root / self.data_dir,
            key_prefix=self.key_prefix,
            group=self.group,
            schedule=self.schedule,
            source=self._source(context),
            outputs=[Output(o.what, _placed(context, o.to), o.table, o.n) for o in self.outputs],
        )

    def _source(self, context: dg.ComponentLoadContext) -> Source | None:
        table = self.source
        if table is None:
            return None
        columns = checked(ColumnSettings, **table.columns.model_dump())
        asset = tuple(part for part in table.asset.split("/") if part)
        address = _placed(context, table.address)
        return Source(address, table.table, columns, asset, table.start_date)


def _placed(context: dg.ComponentLoadContext, address: str) -> str:
    """An address, or a path from the root of the project."""
    return address if "://" in address else str(context.project_root / address)
