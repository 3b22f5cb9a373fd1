"""The engine as Dagster's resource: it visits all users when a day is computed in full."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from mom_pipeline.artifacts.scratch import scratch_folder
from mom_pipeline.core.errors import MomError
from mom_pipeline.core.moments.users import Users, UsersInMemory
from mom_pipeline.core.types import Csr
from mom_pipeline.settings import load_settings


class EngineResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Threads of this process, or a Dask cluster; see `[engine]` in pipeline.toml."""

    data_dir: str

    @contextmanager
    def visiting(self) -> Iterator[Callable[[Csr], Users]]:
        """Yield how the users of a matrix are visited, for as long as the block lasts."""
        settings = load_settings(Path(self.data_dir))
        engine = settings.engine
        if engine.kind == "local":
            yield UsersInMemory
            return
        try:
            from mom_pipeline.engine.dask import on_dask
        except ImportError as error:
            raise MomError(
                f'engine.kind = "dask" needs a library that is not installed ({error.name}): '
                "pip install 'mom-pipeline[engine]'"
            ) from error
        with scratch_folder(settings, "shards") as folder:
            shards_url = engine.shards_url or str(folder)
            with on_dask(engine.address, engine.workers, shards_url) as sharded:
                yield sharded
