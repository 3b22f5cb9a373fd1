"""Shards on a Dask cluster: the workers read them, and only sums travel."""

import gc
import operator
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, is_dataclass
from typing import Any, Self

import numpy as np
from distributed import Client, Future, KilledWorker, LocalCluster, Worker
from distributed.client import FutureCancelledError
from distributed.sizeof import sizeof
from fsspec.core import url_to_fs

from mom_pipeline.core.errors import MomError, VisitFailed
from mom_pipeline.core.moments.anchored import AnchoredSums
from mom_pipeline.core.moments.sums import MomentSums
from mom_pipeline.core.moments.users import Visit
from mom_pipeline.core.threads import using_cores
from mom_pipeline.core.types import Csr
from mom_pipeline.engine.shards import Shards, suitable_number, write_shards
from mom_pipeline.engine.users import (
    EngineFailed,
    ShardedUsers,
    ShardPass,
    ShardUsers,
    Sum,
    add_tree,
    run_pass,
    visit_part,
)

_CONNECT_SECONDS = 5
# The arrays of a pass are sent to all workers; when all workers are lost, they are sent again.
_ATTEMPTS = 3
# Visits that each worker has done, does or will do next before their results are taken.
_SHARDS_UNDER_WAY = 2
# Versions of a matrix whose shards are kept: of the day, of the day before, of a backtest.
_VERSIONS = 3
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


class EngineUnreachable(VisitFailed):
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
        first, last = shards.entries[0].name, shards.entries[-1].name
        return self._insist(
            lambda: self._submitted(work, shards).result(), f"between {first} and {last}"
        )

    def visit(self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers]) -> Iterator[Sum]:
        """Yield the results of the users of each shard, in order.

        A few shards for each worker are under way at a time, so that no more results than these
        wait to be taken. Raises as `add_up` does.
        """
        with self._told_when_gone():
            sent = self.client.scatter((work, shards), broadcast=True, hash=False)
            most = _SHARDS_UNDER_WAY * max(self.n_workers, 1)
        waiting: deque[tuple[ShardUsers, Future]] = deque()
        for part in parts:
            waiting.append((part, self._submit_visit(sent, shards, part)))
            if len(waiting) > most:
                yield self._visited(work, shards, *waiting.popleft())
        while waiting:
            yield self._visited(work, shards, *waiting.popleft())

    def _visited(self, work: Visit[Sum], shards: Shards, part: ShardUsers, future: Future) -> Sum:
        """Return the result of a part; where all workers were lost, it is submitted again."""
        submitted = [future]

        def result() -> Sum:
            if not submitted:
                sent = self.client.scatter((work, shards), broadcast=True, hash=False)
                submitted.append(self._submit_visit(sent, shards, part))
            return submitted.pop().result()

        return self._insist(result, f"at {shards.entries[part.index].name}")

    def _submit_visit(self, sent: Sequence[Future], shards: Shards, part: ShardUsers) -> Future:
        key = f"{shards.entries[part.index].name}:{uuid.uuid4().hex[:8]}"
        preferred = self._preferences(len(shards.entries))[part.index]
        with self._told_when_gone():
            # Scattered and not an argument: Dask keeps the messages that tasks come with.
            users = self.client.scatter(part, workers=preferred.get("workers"), hash=False)
            return self.client.submit(_visit_result, *sent, users, key=key, **preferred)

    def _insist(self, result: Callable[[], Sum], where: str) -> Sum:
        """Return a result; all of it is computed again when all workers were lost."""
        for _ in range(_ATTEMPTS):
            try:
                with self._told_when_gone():
                    return result()
            except FutureCancelledError as error:
                lost = error
            except KilledWorker as error:
                raise EngineFailed(_killed_workers(error)) from error
        raise EngineFailed(
            f"all workers died, {_ATTEMPTS} times, {where}; {_LACK_OF_MEMORY}"
        ) from lost

    def bytes_passed_on(self) -> int:
        """Return the number of bytes that the workers have sent so far, to anyone."""
        return sum(self.client.run(_bytes_sent).values())

    def _submitted(self, work: ShardPass[Sum], shards: Shards) -> Future:
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

    @contextmanager
    def _told_when_gone(self) -> Iterator[None]:
        """Raise EngineUnreachable, and nothing else, when the scheduler went away."""
        if self.client.status != "running":
            raise self._gone()
        try:
            yield
        except MomError:
            raise
        except (OSError, RuntimeError, FutureCancelledError) as error:
            if self.client.status == "running":
                raise
            raise self._gone() from error

    def _gone(self) -> EngineUnreachable:
        return EngineUnreachable(
            f"the Dask scheduler at {self._address} is gone "
            f"({self.client.status}); start it again, then repeat the command"
        )


def _shard_result(work: ShardPass[Any], shards: Shards, index: int) -> Any:
    """Run a pass on one shard; this runs on a worker."""
    with _on_worker(shards.entries[index].name):
        return run_pass(work, shards.read(index))


def _visit_result(work: Visit[Any], shards: Shards, part: ShardUsers) -> Any:
    """Visit some users of one shard; this runs on a worker."""
    with _on_worker(shards.entries[part.index].name):
        return visit_part(work, shards, part)


@contextmanager
def _on_worker(shard: str) -> Iterator[None]:
    """Work on one core, and name the shard in whatever goes wrong."""
    with using_cores(1):
        try:
            yield
        except MomError:
            raise
        except Exception as error:
            raise EngineFailed(f"shard {shard}: {type(error).__name__}: {error}") from error


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
        _client(cluster) as client,
    ):
        yield DaskEngine(client)


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    with ExitStack() as stack:
        try:
            client = stack.enter_context(_client(address, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError) as error:
            raise EngineUnreachable(
                f"no Dask scheduler answers at {address} within {_CONNECT_SECONDS} s ({error}); "
                "start one with `dask scheduler`, correct engine.address, or use "
                'engine.kind = "local"'
            ) from error
        if not DaskEngine(client).n_workers:
            raise EngineUnreachable(
                f"the Dask scheduler at {address} has no workers; start some with "
                f"`dask worker {address}`"
            )
        yield client


@contextmanager
def _client(*where: Any, **how: Any) -> Iterator[Client]:
    """A client, which is closed at the end of the block.

    Clients share a lock, which their start and their end hold. One that was left behind, of a
    scheduler that died, say, is closed when it is collected as garbage: were that in between, it
    would wait for the lock forever.
    """
    with _no_collection():
        client = Client(*where, **how)
    with client:
        try:
            yield client
        finally:
            with _no_collection():
                client.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage inside the block."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class DaskVisits:
    """Has a cluster visit the rows of some versions of a matrix, for as long as its block lasts.

    Nothing is started before the first of them, and nothing is left when the block ends.
    address, n_workers: see `dask_engine`.  shards_url: readable by all workers.
    """

    def __init__(self, address: str, n_workers: int, shards_url: str) -> None:
        self._address, self._n_workers, self._shards_url = address, n_workers, shards_url
        self._stack = ExitStack()
        self._engine: DaskEngine | None = None
        self._written: OrderedDict[str, tuple[ShardedUsers, ExitStack]] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for _, folder in self._written.values():
            self._stack.push(folder)
        self._stack.close()

    def users(self, version: str, X: Csr, last_days: Csr | None = None) -> ShardedUsers:
        """Return users in shards: those of a version that was seen lately, or written now."""
        if version in self._written:
            self._written.move_to_end(version)
            return self._written[version][0]
        if self._engine is None:
            self._engine = self._stack.enter_context(
                dask_engine(self._address, n_workers=self._n_workers)
            )
        while len(self._written) >= _VERSIONS:
            self._written.popitem(last=False)[1][1].close()
        with ExitStack() as folder:
            url = folder.enter_context(_new_folder(self._shards_url))
            n_shards = suitable_number(X.nnz, self._engine.n_workers)
            shards = write_shards(X, url, n_shards=n_shards, last_days=last_days)
            users = ShardedUsers(self._engine, shards)
            self._written[version] = users, folder.pop_all()
        return users


@contextmanager
def _new_folder(parent: str) -> Iterator[str]:
    """Yield the URL of a new folder, which is removed when the block ends."""
    url = f"{parent}/{uuid.uuid4().hex}"
    fs, path = url_to_fs(url)
    try:
        yield url
    finally:
        with suppress(Exception):  # a store that is gone keeps nothing, and was told already
            fs.invalidate_cache()
            if fs.exists(path):
                fs.rm(path, recursive=True)
