"""The pipeline as a component: `dg scaffold defs mom_pipeline.components.RecommenderComponent`.

Attributes may hold `{{ env.NAME }}`, so that no password stands in a file.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import dagster as dg
from pydantic import BaseModel, Field, TypeAdapter

from mom_pipeline.datasets.source import Source
from mom_pipeline.defs.build import build_defs
from mom_pipeline.exports.tables import Output


def _read(kind: type[Any]) -> dg.Resolver:
    """Read a part with its own names: the schema of a part would not say which one is wrong."""

    def read(context: dg.ResolutionContext, given: dict[str, Any]) -> Any:
        return TypeAdapter(kind).validate_python(context.resolve_value(given))

    return dg.Resolver(read, model_field_type=dict[str, Any])


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
    source: Annotated[Source | None, _read(Source)] = Field(
        default=None, description="address, table, columns, asset, start_date; else files in logs"
    )
    outputs: Sequence[Annotated[Output, _read(Output)]] = Field(
        default=(), description="what (lists or groups), to, table, n: where they are written"
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        def placed(address: str) -> str:
            """Return an address, or a path from the root of the project."""
            return address if "://" in address else str(context.project_root / address)

        source = self.source and replace(self.source, address=placed(self.source.address))
        return build_defs(
            context.project_root / self.data_dir,
            key_prefix=self.key_prefix,
            group=self.group,
            schedule=self.schedule,
            source=source,
            outputs=[replace(output, to=placed(output.to)) for output in self.outputs],
        )
