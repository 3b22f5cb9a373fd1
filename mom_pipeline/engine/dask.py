"""Shards on a Dask cluster: the workers read them, and only sums travel."""

import gc
import operator
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple, Self

from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from fsspec.core import url_to_fs

from mom_pipeline.core.errors import MomError, VisitFailed
from mom_pipeline.core.moments.users import Pass, Visit
from mom_pipeline.core.threads import using_cores
from mom_pipeline.core.types import Csr
from mom_pipeline.engine.shards import Shards, suitable_number, write_shards
from mom_pipeline.engine.users import (
    SMALLER,
    EngineFailed,
    ShardedUsers,
    ShardUsers,
    Sum,
    add_in_order,
    on_shard,
)

_CONNECT_SECONDS = 5
# The arrays of a pass are sent to all workers; when all workers are lost, they are sent again.
_ATTEMPTS = 3
# Visits that each worker has done, does or will do next before their results are taken.
_SHARDS_UNDER_WAY = 2
# Versions of a matrix whose shards are kept: of the day, of the day before, of a backtest.
_VERSIONS = 3


# What Dask raises when workers are lost: of results, of addresses, of connections, of all of them.
_LOST = (FutureCancelledError, KeyError, CommClosedError, TimeoutError)


class EngineUnreachable(VisitFailed):
    """No scheduler answers, or it has no workers."""


class _Sent(NamedTuple):
    """Work and shards that all workers have."""

    work: Future
    shards: Future
    names: list[str]


class DaskEngine:
    """One task per shard, on one core each, and a tree of additions where the results are."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._address = client.scheduler.address

    def workers(self) -> list[str]:
        """Return the addresses of the workers, in a fixed order."""
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def add_up(self, work: Pass[Sum], shards: Shards) -> Sum:
        """Sum of a pass over all shards; EngineFailed names the shard that cannot be computed."""

        def total() -> Sum:
            sent, workers = self._send(work, shards), self.workers()
            leaves = [self._submit(sent, workers, i) for i in range(len(shards.entries))]
            return self.added(leaves).result()

        first, last = shards.entries[0].name, shards.entries[-1].name
        return self._insist(total, f"between {first} and {last}")

    def visit(self, work: Visit[Sum], shards: Shards, parts: Iterable[ShardUsers]) -> Iterator[Sum]:
        """Yield the results of the users of each shard in order, a few a worker under way."""

        def submit(part: ShardUsers) -> Future | None:
            with suppress(*_LOST), self._noticing_the_end():
                return self._submit(sent, workers, part.index, part)
            return None

        def result(part: ShardUsers, submitted: list[Future | None]) -> Sum:
            future = submitted.pop() if submitted else None
            if future is None:  # its worker was lost, or all workers and what they had been sent
                again = self._send(work, shards)
                future = self._submit(again, self.workers(), part.index, part)
            return future.result()

        def taken() -> Sum:
            part, future = waiting.popleft()
            submitted, name = [future], shards.entries[part.index].name
            return self._insist(lambda: result(part, submitted), f"at {name}")

        waiting: deque[tuple[ShardUsers, Future | None]] = deque()
        sent = self._insist(lambda: self._send(work, shards), f"at {shards.entries[0].name}")
        for part in parts:
            with self._noticing_the_end():
                workers = self.workers()  # one may be new, or gone
            waiting.append((part, submit(part)))
            if len(waiting) > _SHARDS_UNDER_WAY * max(len(workers), 1):
                yield taken()
        while waiting:
            yield taken()

    def added(self, results: Iterable[Future]) -> Future:
        """Sum of results where they lie: a plain `+`, as another task may need the inputs again."""
        return add_in_order(
            results, lambda a, b: self.client.submit(operator.add, a, b, pure=False)
        )

    def _send(self, work: object, shards: Shards) -> _Sent:
        first, second = self.client.scatter((work, shards), broadcast=True, hash=False)
        return _Sent(first, second, [entry.name for entry in shards.entries])

    def _submit(
        self, sent: _Sent, workers: list[str], index: int, part: ShardUsers | None = None
    ) -> Future:
        """Submit a pass or a visit to a preferred worker: neighbours in the tree share one."""
        own = [workers[index * len(workers) // len(sent.names)]] if workers else None
        # Scattered and not an argument: Dask keeps the messages that tasks come with.
        users = part and self.client.scatter(part, workers=own, hash=False)
        where: dict[str, Any] = {"workers": own, "allow_other_workers": True} if own else {}
        key = f"{sent.names[index]}:{uuid.uuid4().hex[:8]}"
        return self.client.submit(
            _on_worker, sent.work, sent.shards, index, users, key=key, **where
        )

    def _insist(self, result: Callable[[], Sum], where: str) -> Sum:
        """Return a result; all of it is computed again when workers were lost with their data."""
        for _ in range(_ATTEMPTS):
            try:
                with self._noticing_the_end():
                    return result()
            except _LOST as error:
                lost = error
            except KilledWorker as error:
                name = str(error.task).partition(":")[0]
                raise EngineFailed(
                    f"{name}: worker after worker died of it, the last at "
                    f"{error.last_worker.address}; {SMALLER}"
                ) from error
        raise EngineFailed(f"all workers died, {_ATTEMPTS} times, {where}; {SMALLER}") from lost

    @contextmanager
    def _noticing_the_end(self) -> Iterator[None]:
        """Raise EngineUnreachable, and nothing else, when the scheduler went away."""
        problem: Exception | None = None
        try:
            if self.client.status == "running":
                yield
                return
        except MomError:
            raise
        except (OSError, RuntimeError, FutureCancelledError) as error:
            if self.client.status == "running":
                raise
            problem = error
        raise EngineUnreachable(
            f"the Dask scheduler at {self._address} is gone ({self.client.status}); start it "
            "again, then repeat the command"
        ) from problem


def _on_worker(
    work: Callable[..., Any], shards: Shards, index: int, part: ShardUsers | None
) -> Any:
    with using_cores(1):
        return on_shard(work, shards, index, part)


@contextmanager
def dask_engine(address: str = "", *, n_workers: int = 2) -> Iterator[DaskEngine]:
    """Connect to a scheduler, such as tcp://10.0.0.1:8786, or start workers on loopback."""
    with ExitStack() as stack:
        if not address:
            cluster = _opened(
                LocalCluster,
                n_workers=n_workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                protocol="tcp://",
            )
            client = stack.enter_context(_opened(Client, stack.enter_context(cluster)))
            yield DaskEngine(client)
            return
        try:
            client = stack.enter_context(_opened(Client, address, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError) as error:
            raise EngineUnreachable(
                f"no Dask scheduler answers at {address} within {_CONNECT_SECONDS} s ({error}); "
                "start one with `dask scheduler`, correct engine.address, or use "
                'engine.kind = "local"'
            ) from error
        engine = DaskEngine(client)
        if not engine.workers():
            raise EngineUnreachable(
                f"the Dask scheduler at {address} has no workers; start some with "
                f"`dask worker {address}`"
            )
        yield engine


@contextmanager
def _opened(kind: Callable[..., Any], *where: Any, **how: Any) -> Iterator[Any]:
    """A client or a cluster, which is closed at the end of the block.

    All of them share a lock, which their start and their end hold. A client that was left behind,
    of a scheduler that died, say, is closed when it is collected as garbage: were that in between,
    it would wait for the lock forever.
    """
    with _no_collection():
        opened = kind(*where, **how)
    try:
        yield opened
    finally:
        with _no_collection():
            opened.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class DaskVisits:
    """Has a cluster visit the rows of some versions of a matrix; it starts with the first visit."""

    def __init__(self, address: str, n_workers: int, shards_url: str) -> None:
        self._address, self._n_workers, self._shards_url = address, n_workers, shards_url
        self._stack = ExitStack()
        self._engine: DaskEngine | None = None
        self._written: OrderedDict[str, ShardedUsers] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for users in self._written.values():
            _remove(users.shards.url)
        self._stack.close()

    def users(self, version: str, X: Csr, last_days: Csr | None = None) -> ShardedUsers:
        """Return users in shards: those of a version that was seen lately, or written now."""
        if version not in self._written:
            if self._engine is None:
                engine = dask_engine(self._address, n_workers=self._n_workers)
                self._engine = self._stack.enter_context(engine)
            while len(self._written) >= _VERSIONS:
                _remove(self._written.popitem(last=False)[1].shards.url)
            url = f"{self._shards_url}/{uuid.uuid4().hex}"
            n_shards = suitable_number(X.nnz, len(self._engine.workers()))
            try:
                shards = write_shards(X, url, n_shards=n_shards, last_days=last_days)
            except BaseException:
                _remove(url)
                raise
            self._written[version] = ShardedUsers(self._engine, shards)
        self._written.move_to_end(version)
        return self._written[version]


def _remove(url: str) -> None:
    """Remove a folder; a store that is gone keeps nothing, and was told already."""
    with suppress(Exception):
        fs, path = url_to_fs(url)
        fs.invalidate_cache()
        if fs.exists(path):
            fs.rm(path, recursive=True)
