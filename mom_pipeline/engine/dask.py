"""Shards on a Dask cluster: the workers read them, and only sums travel."""

import operator
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, LocalCluster, Worker
from distributed.client import FutureCancelledError
from distributed.sizeof import sizeof
from fsspec.core import url_to_fs

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.threads import using_cores
from mom_pipeline.core.types import Csr
from mom_pipeline.engine.shards import Shards, suitable_number, write_shards
from mom_pipeline.engine.users import (
    EngineFailed,
    ShardedUsers,
    ShardPass,
    Sum,
    add_tree,
    run_pass,
)

_CONNECT_SECONDS = 5
# The arrays of a pass are sent to all workers; when all workers are lost, they are sent again.
_ATTEMPTS = 3
_LACK_OF_MEMORY = (
    "most likely for lack of memory: write more, smaller shards, or give the workers more of it"
)


def bytes_held(value: Any) -> int:
    """Return the bytes of all arrays in a value; Dask itself does not look into dataclasses."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    held = (getattr(value, f.name) for f in fields(value)) if is_dataclass(value) else ()
    return sum(bytes_held(part) for part in held)


sizeof.register((MomentSums, AnchoredSums), bytes_held)


class EngineUnreachable(MomError):
    """No scheduler answers, or it has no workers."""


class DaskEngine:
    """One task per shard, on one core each, and a tree of additions where the results are."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._address = client.scheduler.address

    @property
    def n_workers(self) -> int:
        return len(self._workers())

    def add_up(self, work: ShardPass[Sum], shards: Shards) -> Sum:
        """Return the sum of a pass over all shards.

        The results of a worker that is lost are computed again by others. Raises EngineFailed
        with the name of the shard when that does not help.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._submitted(work, shards).result()
            except FutureCancelledError as error:
                lost = error
            except KilledWorker as error:
                raise EngineFailed(_killed_workers(error)) from error
        raise EngineFailed(
            f"all workers died, {_ATTEMPTS} times, between {shards.entries[0].name} and "
            f"{shards.entries[-1].name}; {_LACK_OF_MEMORY}"
        ) from lost

    def bytes_passed_on(self) -> int:
        """Return the number of bytes that the workers have sent so far, to anyone."""
        return sum(self.client.run(_bytes_sent).values())

    def _submitted(self, work: ShardPass[Sum], shards: Shards) -> Future:
        self._require_scheduler()
        sent = self.client.scatter((work, shards), broadcast=True, hash=False)
        one_pass = uuid.uuid4().hex[:8]
        leaves = [
            self.client.submit(
                _shard_result, *sent, index, key=f"{entry.name}:{one_pass}", **preferred
            )
            for index, (entry, preferred) in enumerate(
                zip(shards.entries, self._preferences(len(shards.entries)), strict=True)
            )
        ]
        return self.added(leaves)

    def added(self, results: Sequence[Future]) -> Future:
        """Return the sum of results that lie on workers, added where they are.

        A plain `+`: a task must not write over its inputs, which another task may need again.
        """
        return add_tree(results, lambda a, b: self.client.submit(operator.add, a, b, pure=False))

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, in a fixed order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _preferences(self, n_shards: int) -> list[dict[str, Any]]:
        """Return the preferred worker of each shard; any other may take its place.

        Neighbours in the tree share a worker, so that their sum need not travel.
        """
        workers = self._workers()
        if not workers:
            return [{}] * n_shards
        return [
            {"workers": [workers[index * len(workers) // n_shards]], "allow_other_workers": True}
            for index in range(n_shards)
        ]

    def _require_scheduler(self) -> None:
        if self.client.status != "running":
            raise EngineUnreachable(
                f"the Dask scheduler at {self._address} is gone "
                f"({self.client.status}); start it again, then repeat the command"
            )


def _shard_result(work: ShardPass[Any], shards: Shards, index: int) -> Any:
    """Run a pass on one shard; this runs on a worker."""
    with using_cores(1):
        try:
            return run_pass(work, shards.read(index))
        except MomError:
            raise
        except Exception as error:
            name = shards.entries[index].name
            raise EngineFailed(f"shard {name}: {type(error).__name__}: {error}") from error


def _bytes_sent(dask_worker: Worker) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def _killed_workers(error: KilledWorker) -> str:
    name = str(error.task).partition(":")[0]
    return (
        f"{name}: worker after worker died of it, the last at {error.last_worker.address}; "
        + _LACK_OF_MEMORY
    )


@contextmanager
def dask_engine(
    address: str = "", *, n_workers: int = 2, memory_limit: str = "auto"
) -> Iterator[DaskEngine]:
    """Connect to a scheduler, such as tcp://10.0.0.1:8786, or start a cluster on this machine.

    Without an address, worker processes of one thread each are started on loopback and end with
    the block.  memory_limit: of each of them, such as "4GB".
    """
    if address:
        with _connected(address) as client:
            yield DaskEngine(client)
        return
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=memory_limit,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            protocol="tcp://",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield DaskEngine(client)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        client = Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise EngineUnreachable(
            f"no Dask scheduler answers at {address} within {_CONNECT_SECONDS} s ({error}); start "
            'one with `dask scheduler`, correct engine.address, or use engine.kind = "local"'
        ) from error
    with client:
        if not DaskEngine(client).n_workers:
            raise EngineUnreachable(
                f"the Dask scheduler at {address} has no workers; start some with "
                f"`dask worker {address}`"
            )
        yield client


@contextmanager
def on_dask(
    address: str, n_workers: int, shards_url: str
) -> Iterator[Callable[[Csr], ShardedUsers]]:
    """Yield a function that writes a matrix as shards and has a cluster visit them.

    Nothing is started before it is called, and nothing is left when the block ends.
    address, n_workers: see `dask_engine`.  shards_url: readable by all workers.
    """
    with ExitStack() as stack:

        def sharded(X: Csr) -> ShardedUsers:
            engine = stack.enter_context(dask_engine(address, n_workers=n_workers))
            url = stack.enter_context(_new_folder(shards_url))
            n_shards = suitable_number(X.nnz, engine.n_workers)
            return ShardedUsers(engine, write_shards(X, url, n_shards=n_shards))

        yield sharded


@contextmanager
def _new_folder(parent: str) -> Iterator[str]:
    """Yield the URL of a new folder, which is removed when the block ends."""
    url = f"{parent}/{uuid.uuid4().hex}"
    fs, path = url_to_fs(url)
    try:
        yield url
    finally:
        if fs.exists(path):
            fs.rm(path, recursive=True)
