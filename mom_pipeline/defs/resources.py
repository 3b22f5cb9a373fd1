"""The data folder as Dagster's resource: opened once a run, with the lock of its one writer."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np

from mom_pipeline.artifacts.lock import writing_to
from mom_pipeline.artifacts.scratch import new_array, scratch_folder
from mom_pipeline.catalogue import Catalogue
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.fitted import FittedModel
from mom_pipeline.core.moments.users import DayRows, Users, UsersInMemory
from mom_pipeline.core.types import Array
from mom_pipeline.datasets.source import Source
from mom_pipeline.defs.partitions import days_in_words, first_day, run_days
from mom_pipeline.pipeline.days import Days
from mom_pipeline.serving.registry import ModelRegistry
from mom_pipeline.settings import Settings, load_settings
from mom_pipeline.warehouse.connection import Warehouse
from mom_pipeline.warehouse.materializations import begin_run, end_run, runs
from mom_pipeline.warehouse.matrix import ids_by_position

if TYPE_CHECKING:
    from mom_pipeline.engine.dask import DaskVisits


def data_folder(settings: Settings, source: Source | None = None) -> dg.ResourceDefinition:
    """The folder of the logs, the warehouse, the arrays and the models."""

    def opened(context: dg.InitResourceContext) -> Iterator[OpenFolder]:
        """Hold the lock of the folder while a run writes to it; sensors and schedules only read."""
        run, instance, log = context.run, context.instance, context.log
        with ExitStack() as stack:
            if run is None or instance is None:
                yield OpenFolder(load_settings(settings.data_dir), stack, source)
                return
            who = f"run {run.run_id} ({run.job_name})"
            stack.enter_context(writing_to(settings, who, waiting=log.info if log else None))
            own = source.declared(settings) if source else settings
            folder = OpenFolder(own, stack, source)
            if days := run_days(run.tags):
                folder.begin(run.run_id, days, instance)
                instance.add_run_tags(run.run_id, {"days": days_in_words(run.tags)})
            try:
                yield folder
            finally:
                folder.end(run.run_id)
            if model := folder.registry.champion_version():
                instance.add_run_tags(run.run_id, {"model": model})

    description = (
        f"{settings.data_dir}: logs, warehouse, arrays and models. All steps need its disk."
    )
    return dg.ResourceDefinition(opened, description=description)


class OpenFolder:
    """A data folder while a run works on it: settings, ledger, engine, each read once."""

    def __init__(self, settings: Settings, stack: ExitStack, source: Source | None = None) -> None:
        self.settings = settings
        self.source = source
        self.warehouse = Warehouse(settings)
        self.days = Days(settings, self.warehouse)
        self.registry = ModelRegistry(settings.models_dir, mapped=settings.engine.mapped)
        self._stack = stack

    # The source, where it is somebody else's table.

    def read_source(self, source: Source, day: date) -> dict[str, str]:
        """Bring the log file of a day up to date; return what was read, and its version."""
        return {source.name: source.read(self.settings, day, self._version_read(source, day))}

    def unread(self) -> set[date]:
        """The days whose rows in the source are not those that were read."""
        if self.source is None:
            return set()
        source, (_, today) = self.source, self.settings.first_and_last_day()
        first = first_day(self.settings, source.start_date)
        there = source.versions(self.settings, first, today)
        known = {day for asset, day in self.days.made if asset == "raw_logs" and first <= day}
        return {
            day
            for day in there.keys() | known
            if there.get(day, "") != self._version_read(source, day)
        }

    def _version_read(self, source: Source, day: date) -> str:
        made = self.days.made.get(("raw_logs", day))
        return made.inputs.get(source.name, "") if made else ""

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue.open(self.settings.data_dir)

    def item_labels(self) -> Array:
        """The items by position as tables show them: by name, where they have one."""
        with self.warehouse.reading() as connection:
            items = ids_by_position(connection, "item")
        return np.array([self.catalogue.label(str(item)) for item in items], dtype=object)

    def listing(self, model: FittedModel) -> FittedModel:
        """The model without the items that the settings exclude from lists."""
        serving = self.settings.serving
        excluded = self.catalogue.left_out(serving.exclude_items, serving.exclude_groups)
        with self.warehouse.reading() as connection:
            return model.excluding(excluded, ids_by_position(connection, "item"))

    # The engine: who visits the users of a day.

    def users(self, rows: DayRows) -> Users:
        """The users of a day: in this process, or in shards that a cluster visits."""
        if self.settings.engine.kind == "local":
            return UsersInMemory(rows.X, rows.last_days)
        return self._cluster.users(rows.version, rows.X, rows.last_days)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array with a row per user: in memory, or in a file where a cluster does the work."""
        return new_array(self.settings, shape, dtype)

    @cached_property
    def _cluster(self) -> "DaskVisits":
        try:
            from mom_pipeline.engine.dask import DaskVisits
        except ImportError as error:
            raise MomError(
                f'engine.kind = "dask" needs a library that is not installed ({error.name}): '
                "pip install 'mom-pipeline[engine]'"
            ) from error
        engine = self.settings.engine
        folder = self._stack.enter_context(scratch_folder(self.settings, "shards"))
        visits = DaskVisits(engine.address, engine.workers, engine.shards_url or str(folder))
        return self._stack.enter_context(visits)

    # The ledger of runs.

    def begin(self, run_id: str, days: tuple[date, date], instance: dg.DagsterInstance) -> None:
        """Record that a run began. Whoever holds the lock knows that others without an end died."""
        with self.warehouse.connect() as connection:
            begun = [one.run_id for one in runs(connection) if one.failure is None]
            dead = [other for other in begun if other != run_id]
            for other in dead:
                end_run(connection, other, f"run {other} was killed")
            begin_run(connection, run_id, *days)
        for run in map(instance.get_run_by_id, dead):
            if run is not None and not run.is_finished:
                instance.report_run_failed(run, "Its process is gone.")

    def end(self, run_id: str, failure: str = "") -> None:
        """Record that a run ended, or why it failed."""
        with self.warehouse.connect() as connection:
            end_run(connection, run_id, failure)
