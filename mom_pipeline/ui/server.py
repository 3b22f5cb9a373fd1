"""Dagster's pages: its webserver, with the proxy and the guard before it, on loopback only."""

import asyncio
import errno
import socket
import time
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn

from mom_pipeline.ui import PortTaken
from mom_pipeline.ui.guard import NO_FRAMES, LoopbackGuard
from mom_pipeline.ui.programs import Programs
from mom_pipeline.ui.proxy import DagsterProxy

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 3000
_SECONDS_FOR_OPEN_REQUESTS = 3
_LOADED = """{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError {
  ... on PythonError { message }
  ... on RepositoryLocation { repositories { assetGroups { groupName } } }
} } } } }"""


def listen(port: int | None) -> socket.socket:
    """Return a listening socket on loopback: the given port, the default one, or a free one.

    Raises PortTaken when a port was given and another program has it.
    """
    try:
        return socket.create_server((LOOPBACK, DEFAULT_PORT if port is None else port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        if port is None:
            return socket.create_server((LOOPBACK, 0))
        raise PortTaken(
            f"port {port} on {LOOPBACK} must be free, but it is taken or not permitted; "
            "choose another --port, or leave it out for a free one"
        ) from error


def start_webserver(programs: Programs, module: str) -> tuple[DagsterProxy, list[dict[str, Any]]]:
    """Start `dagster-webserver`; returns the proxy to it, and what became of its code locations."""
    with listen(0) as free:
        port = free.getsockname()[1]
    proxy = DagsterProxy(port)
    where = ("-h", LOOPBACK, "-p", str(port), "--path-prefix", proxy.prefix)
    programs.start("dagster-webserver", *where, "-m", module, "--dagster-log-level", "warning")
    address, question = f"http://{LOOPBACK}:{port}{proxy.prefix}/graphql", {"query": _LOADED}
    while True:
        programs.check_alive()
        try:
            answer = httpx.post(address, json=question, trust_env=False, timeout=None)  # noqa: S113
            break
        except httpx.ConnectError:
            time.sleep(0.1)
    entries = answer.json()["data"]["workspaceOrError"]["locationEntries"]
    return proxy, [entry["locationOrLoadError"] for entry in entries]


def whole_graph(locations: list[dict[str, Any]]) -> str:
    """Return the path of the graph with every group expanded; by default none is."""
    repositories = [r for location in locations for r in location.get("repositories", ())]
    groups = {group["groupName"] for r in repositories for group in r["assetGroups"]}
    expanded = ",".join(f"global@global:{group}" for group in sorted(groups))
    return f"/asset-groups?{urlencode({'expanded': expanded})}"


async def serve(proxy: DagsterProxy, listener: socket.socket, programs: Programs) -> None:
    """Serve the pages until a signal comes; raises ProgramMissing when one has ended."""
    configuration = uvicorn.Config(
        LoopbackGuard(proxy, port=listener.getsockname()[1]),
        log_level="warning",
        lifespan="off",
        headers=[NO_FRAMES],
        # Behind no proxy, so that no header may speak for the client.
        proxy_headers=False,
        timeout_graceful_shutdown=_SECONDS_FOR_OPEN_REQUESTS,
    )
    server = uvicorn.Server(configuration)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not serving.done():
            programs.check_alive()
            await asyncio.wait([serving], timeout=1)
    finally:
        server.should_exit = True
        await serving
