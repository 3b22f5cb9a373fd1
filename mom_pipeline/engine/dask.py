"""Shards on a Dask cluster: the workers read them, and only sums travel."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, KilledWorker, LocalCluster, Worker
from distributed.client import FutureCancelledError

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.threads import using_cores
from mom_pipeline.engine.errors import EngineFailed, EngineUnreachable
from mom_pipeline.engine.interface import ShardPass, Sum
from mom_pipeline.engine.local import result_of
from mom_pipeline.engine.shards import Shards
from mom_pipeline.engine.trees import added, as_tree

_CONNECT_SECONDS = 5
# What a pass needs was sent to all workers; when all of them are lost, so is that.
_ATTEMPTS = 3
_LACK_OF_MEMORY = (
    "most likely for lack of memory: write more, smaller shards, or give the workers more of it"
)


class DaskEngine:
    """One task per shard, on one core each, and a tree of additions where the results are."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._address = client.scheduler.address

    @property
    def n_workers(self) -> int:
        """Return how many workers there are now."""
        return len(self._workers())

    def add_up(self, work: ShardPass[Sum], shards: Shards) -> Sum:
        """Return the sum of the work on every shard.

        A worker that is lost in the middle costs its own results, which others compute again.
        Raises EngineFailed, with the name of the shard, when that does not help.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._submitted(work, shards).result()
            except FutureCancelledError as error:
                lost = error
            except KilledWorker as error:
                raise EngineFailed(_said_of(error)) from error
        raise EngineFailed(
            f"all workers died, {_ATTEMPTS} times, between {shards.entries[0].name} and "
            f"{shards.entries[-1].name}; {_LACK_OF_MEMORY}"
        ) from lost

    def bytes_passed_on(self) -> int:
        """Return what the workers have sent so far, to each other and back."""
        return sum(self.client.run(_bytes_sent).values())

    def _submitted(self, work: ShardPass[Sum], shards: Shards) -> Future:
        self._require_scheduler()
        sent = self.client.scatter((work, shards), broadcast=True, hash=False)
        one_pass = uuid.uuid4().hex[:8]
        leaves = [
            self.client.submit(
                _shard_result, *sent, place, key=f"{entry.name}:{one_pass}", **preferred
            )
            for place, (entry, preferred) in enumerate(
                zip(shards.entries, self._preferences(len(shards.entries)), strict=True)
            )
        ]
        return as_tree(leaves, lambda a, b: self.client.submit(added, a, b, pure=False))

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, in a fixed order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _preferences(self, n_shards: int) -> list[dict[str, Any]]:
        """Return where each shard is worked on, if that worker lives.

        Neighbours in the tree share a worker, so that their sum need not travel.
        """
        workers = self._workers()
        if not workers:
            return [{}] * n_shards
        return [
            {"workers": [workers[place * len(workers) // n_shards]], "allow_other_workers": True}
            for place in range(n_shards)
        ]

    def _require_scheduler(self) -> None:
        if self.client.status != "running":
            raise EngineUnreachable(
                f"the Dask scheduler at {self._address} is gone "
                f"({self.client.status}); start it again, then repeat the command"
            )


def _shard_result(work: ShardPass[Any], shards: Shards, place: int) -> Any:
    """Run on a worker."""
    with using_cores(1):
        try:
            return result_of(work, shards.read(place))
        except MomError:
            raise
        except Exception as error:
            name = shards.entries[place].name
            raise EngineFailed(f"shard {name}: {type(error).__name__}: {error}") from error


def _bytes_sent(dask_worker: Worker) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def _said_of(error: KilledWorker) -> str:
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

    Without an address: worker processes of one thread each, over TCP on loopback, that end with
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
