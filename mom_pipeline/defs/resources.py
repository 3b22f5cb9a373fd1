"""The data folder as Dagster's resource: settings, warehouse and artifacts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.day_state import DayState
from mom_pipeline.artifacts.writer import writing_to
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.types import Array
from mom_pipeline.defs.run_tags import days_tag, outcome_tags
from mom_pipeline.defs.runs import process_tag
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.dictionaries import ids_by_position


class DataFolder(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Settings, warehouse and artifacts below one folder."""

    data_dir: str

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Self]:
        """Hold the lock of the folder for a whole run; sensors and schedules only read."""
        run = context.run
        if run is None or context.instance is None:
            yield self
            return
        context.instance.add_run_tags(run.run_id, {**process_tag(run.run_id), **days_tag(run.tags)})
        if _only_compares(run):  # reads the warehouse, writes to a folder of its own
            yield self
            return
        who = f"run {run.run_id} ({run.job_name})"
        log = context.log
        with writing_to(self.settings, who, waiting=log.info if log else None):
            yield self
            context.instance.add_run_tags(run.run_id, outcome_tags(self.warehouse, run.tags))

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

    def item_labels(self) -> Array:
        """The items by position as tables show them: by name, where they have one."""
        catalogue = Catalogue.open(Path(self.data_dir))
        return np.array([catalogue.label(str(item)) for item in self.item_ids()], dtype=object)

    def listing(self, model: FittedModel) -> FittedModel:
        """The model without what the settings leave out of lists."""
        serving = self.settings.serving
        catalogue = Catalogue.open(Path(self.data_dir))
        left_out = catalogue.left_out(serving.leave_out_items, serving.leave_out_groups)
        if not left_out:
            return model
        items = self.item_ids()[: model.n_items]
        return replace(model, left_out=np.array([item in left_out for item in items], dtype=bool))

    @property
    def state(self) -> DayState:
        return DayState(self.settings)


def _only_compares(run: dg.DagsterRun) -> bool:
    """Whether a run is of `model_comparison` alone, by its job or by its selection."""
    chosen = run.asset_selection or set()
    return run.job_name == "comparison" or chosen == {dg.AssetKey("model_comparison")}
