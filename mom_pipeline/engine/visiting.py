"""A matrix handed to a cluster for as long as a block lasts."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from fsspec.core import url_to_fs

from mom_pipeline.core.types import Csr
from mom_pipeline.engine.dask import dask_engine
from mom_pipeline.engine.shard_writing import suited_number, write_shards
from mom_pipeline.engine.users import ShardedUsers


@contextmanager
def on_dask(
    address: str, n_workers: int, shards_url: str
) -> Iterator[Callable[[Csr], ShardedUsers]]:
    """Yield what makes shards of a matrix and has a cluster visit them.

    Nothing is started before it is called, and nothing is left when the block ends.
    address, n_workers: see `dask_engine`.  shards_url: where all workers can read.
    """
    with ExitStack() as opened:

        def sharded(X: Csr) -> ShardedUsers:
            engine = opened.enter_context(dask_engine(address, n_workers=n_workers))
            url = opened.enter_context(_folder_below(shards_url))
            n_shards = suited_number(X.nnz, engine.n_workers)
            return ShardedUsers(engine, write_shards(X, url, n_shards=n_shards))

        yield sharded


@contextmanager
def _folder_below(url: str) -> Iterator[str]:
    """Yield a new folder, which is removed when the block ends."""
    place = f"{url}/{uuid.uuid4().hex}"
    fs, path = url_to_fs(place)
    try:
        yield place
    finally:
        if fs.exists(path):
            fs.rm(path, recursive=True)
