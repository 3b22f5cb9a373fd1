"""The engine as Dagster's resource: it visits the users of a day, wherever their rows are."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
import numpy as np
from pydantic import PrivateAttr

from mom_pipeline.artifacts.scratch import new_array, scratch_folder
from mom_pipeline.core.day_rows import DayRows
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.types import Array
from mom_pipeline.settings import Settings, load_settings

if TYPE_CHECKING:
    from mom_pipeline.engine.dask import DaskVisits


class EngineResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Threads of this process, or a Dask cluster; see `[engine]` in pipeline.toml."""

    data_dir: str
    _stack: ExitStack = PrivateAttr(default_factory=ExitStack)
    _visits: "DaskVisits | None" = PrivateAttr(default=None)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Self]:
        """Keep a cluster, once it is needed, and the shards of its days until the run ends."""
        with ExitStack() as self._stack:
            self._visits = None
            yield self

    def users(self, rows: DayRows) -> Users:
        """The users of a day: in this process, or in shards that a cluster visits."""
        settings = load_settings(Path(self.data_dir))
        if settings.engine.kind == "local":
            return UsersInMemory(rows.X, rows.last_days)
        if self._visits is None:
            self._visits = self._on_dask(settings)
        return self._visits.users(rows.version, rows.X, rows.last_days)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array with a row per user: in memory, or in a file where a cluster does the work."""
        return new_array(load_settings(Path(self.data_dir)), shape, dtype)

    def _on_dask(self, settings: Settings) -> "DaskVisits":
        try:
            from mom_pipeline.engine.dask import DaskVisits
        except ImportError as error:
            raise MomError(
                f'engine.kind = "dask" needs a library that is not installed ({error.name}): '
                "pip install 'mom-pipeline[engine]'"
            ) from error
        engine = settings.engine
        folder = self._stack.enter_context(scratch_folder(settings, "shards"))
        visits = DaskVisits(engine.address, engine.workers, engine.shards_url or str(folder))
        return self._stack.enter_context(visits)
