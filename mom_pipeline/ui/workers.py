"""Workers of a service: processes that share one listener, and the memory of one model.

They are forked around what the parent has loaded. When that changes, others are forked around the
new, and the old ones take no more connections and end those that they have after an answer.
"""

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Connections that wait until a worker takes them.
WAITING = 1024
_LOOK_EVERY_SECONDS = 0.25
# How long an old worker waits for a next request, so that it can say that there will be none.
_SECONDS_TO_LEAVE, _SECONDS_TO_END = 5.0, 15.0


class Leaving:
    """An ASGI application that ends connections after their answers once `now` is set."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self.now = app, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def ending(message: Message) -> None:
            if self.now and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, ending)


def serve_as_worker(server: uvicorn.Server, leaving: Leaving, listener: socket.socket) -> None:
    """Serve until SIGTERM, SIGUSR1 or orphaned; a backlog of 1 leaves connections to others."""
    parent = os.getppid()

    async def serve() -> None:
        loop = asyncio.get_running_loop()

        def leave() -> None:
            leaving.now = True
            loop.remove_reader(listener)  # to close it would drop what was accepted just now
            loop.call_later(_SECONDS_TO_LEAVE, setattr, server, "should_exit", True)

        loop.add_signal_handler(signal.SIGUSR1, leave)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        listener.listen(WAITING)  # as before the server asked for one at a time
        while not serving.done():
            server.should_exit |= os.getppid() != parent
            await asyncio.wait([serving], timeout=1)

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(serve())


def keep_workers(n: int, look: Callable[[], object], work: Callable[[], None]) -> None:
    """Keep n processes at work until an interrupt; what ends or has an old `look` is replaced."""
    seen, own, old = None, set[int](), set[int]()
    try:
        while True:
            if (now := look()) != seen:
                for pid in own:
                    os.kill(pid, signal.SIGUSR1)
                seen, own, old = now, set(), old | own
            own, old = set(filter(_is_at_work, own)), set(filter(_is_at_work, old))
            own |= {_forked(work) for _ in range(n - len(own))}
            time.sleep(_LOOK_EVERY_SECONDS)
    finally:
        _end(own | old)


def _forked(work: Callable[[], None]) -> int:
    gc.freeze()  # collecting garbage would write to pages that are shared
    if pid := os.fork():
        return pid
    status = 1
    try:
        with suppress(KeyboardInterrupt):
            work()
        status = 0
    finally:
        os._exit(status)


def _is_at_work(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG) == (0, 0)


def _end(workers: set[int]) -> None:
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _SECONDS_TO_END
    while (workers := set(filter(_is_at_work, workers))) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
