"""The data folder as Dagster's resource: settings, warehouse and artifacts."""

from pathlib import Path

import dagster as dg

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.core.types import Array
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import ids_by_position


class DataFolder(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Settings, warehouse and artifacts below one folder."""

    data_dir: str

    @property
    def settings(self) -> Settings:
        return load_settings(Path(self.data_dir))

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings)

    def item_ids(self) -> Array:
        """The ids of all items by position; positions never change, so one look serves a run."""
        with self.warehouse.reading() as connection:
            return ids_by_position(connection, "item")

    @property
    def state(self) -> DayState:
        return DayState(self.settings)
