"""Dagster's pages: its webserver, with a proxy and the guard before it, on loopback only.

`dagster-webserver` listens on another port under a secret path. Dagster executes a mutation that
arrives by GET, from whichever page, so its port must be of no use to a page that finds it. There
everything but the secret path is not found, and `/` redirects to it. A page whose name resolves to
127.0.0.1 (DNS rebinding) could follow and read where it came to; so the path, taken as the target
of a redirect, names a port that no browser connects to.
"""

import asyncio
import errno
import secrets
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mom_pipeline.core.errors import MomError
from mom_pipeline.ui.guard import LoopbackGuard, Refused
from mom_pipeline.ui.programs import Programs
from mom_pipeline.ui.workers import WAITING

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 3000
_SECONDS_FOR_OPEN_REQUESTS = 3
_LOADED = """{ workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError {
  ... on PythonError { message }
  ... on RepositoryLocation { repositories { assetGroups { groupName } } }
} } } } }"""
_GRAPHQL = "/graphql"
# Of one connection, or of a body that is written anew.
_OWN = {
    *(b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"accept-encoding", b"content-length", b"date", b"server"),
}


class PortTaken(MomError):
    """The requested port belongs to another program."""


class DagsterProxy:
    """An ASGI application that passes requests on to the webserver; GraphQL by POST only."""

    def __init__(self, port: int) -> None:
        self.prefix = f"//127.0.0.1:1/{secrets.token_hex(16)}"
        self._address, self._prefix = f"127.0.0.1:{port}", self.prefix.encode()
        # A page waits for its answer as long as it likes.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(trust_env=False, timeout=None, limits=limits)  # noqa: S113

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._relay(WebSocket(scope, receive, send))
        else:
            response = await self._answer(Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path, query = request.scope["path"], request.scope["query_string"]
        # Dagster's route also matches a path that ends with a line feed.
        if path.rstrip() == _GRAPHQL and query and request.method != "POST":
            raise Refused(f"GraphQL is answered by POST only, found {request.method}")
        # As it came: a part of an address would be rewritten, such as /x/../graphql.
        target = self._prefix + request.scope["raw_path"] + (b"?" + query if query else b"")
        try:
            answer = await self._client.request(
                request.method,
                f"http://{self._address}",
                headers=[*_passed_on(request.headers.raw), (b"accept-encoding", b"identity")],
                content=await request.body(),
                extensions={"target": target},
            )
        except (httpx.TransportError, ClientDisconnect) as error:
            return PlainTextResponse(f"dagster-webserver does not answer: {error!r}\n", 502)
        # Pages and redirects name the prefix.
        response = Response(answer.content.replace(self._prefix, b""), answer.status_code)
        for name, value in _passed_on(answer.headers.raw):
            response.raw_headers.append((name.lower(), value.replace(self._prefix, b"")))
        return response

    async def _relay(self, outer: WebSocket) -> None:
        address = f"ws://{self._address}{self.prefix}{_GRAPHQL}"
        protocols = outer.scope["subprotocols"]
        with suppress(OSError, WebSocketException):
            async with connect(address, subprotocols=protocols, proxy=None, max_size=None) as inner:
                await outer.accept(inner.subprotocol)

                async def outward() -> None:
                    async for text in inner:
                        await outer.send_text(str(text))
                    await outer.close()

                answering = asyncio.create_task(outward())
                async for text in outer.iter_text():
                    await inner.send(text)
                answering.cancel()


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [header for header in headers if header[0].lower() not in _OWN]


def listen(port: int | None, host: str = LOOPBACK) -> socket.socket:
    """A listening socket: on the given port, else the default or a free one; PortTaken, OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = (host, DEFAULT_PORT if port is None else port)
    try:
        listener = socket.create_server(address, family=family, backlog=WAITING)
        # For the connections, too: asyncio sets it on those alone that name their protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        if port is None:
            return listen(0, host)
        raise PortTaken(
            f"port {port} on {host} must be free, but it is taken or not permitted; "
            "choose another --port, or 0 for a free one"
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


def behind_proxies(app: ASGIApp, addresses: list[str]) -> ASGIApp:
    """Take client and scheme from the headers of these proxies, and of nobody else."""
    return ProxyHeadersMiddleware(app, trusted_hosts=addresses)  # type: ignore[arg-type,return-value]


def uvicorn_server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A server of pages that no frame shows; behind no proxy: no header speaks for the client."""
    headers = [("x-frame-options", "SAMEORIGIN")]
    fixed: dict[str, Any] = {"log_level": "warning", "proxy_headers": False, "headers": headers}
    return uvicorn.Server(uvicorn.Config(app, **fixed, **options))


async def serve(proxy: DagsterProxy, listener: socket.socket, programs: Programs) -> None:
    """Serve the pages until a signal comes; raises ProgramMissing when one has ended."""
    guarded = LoopbackGuard(proxy, port=listener.getsockname()[1])
    seconds = _SECONDS_FOR_OPEN_REQUESTS
    server = uvicorn_server(guarded, lifespan="off", timeout_graceful_shutdown=seconds)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not serving.done():
            programs.check_alive()
            await asyncio.wait([serving], timeout=1)
    finally:
        server.should_exit = True
        await serving
