"""A proxy before `dagster-webserver`, which listens on another port under a secret path.

Dagster executes a mutation that arrives by GET, from whichever page, so its port must be of no use
to a page that finds it. There everything but the secret path is not found, and `/` redirects to
it. A page whose name resolves to 127.0.0.1 (DNS rebinding) could follow and read where it came to;
so the path, taken as the target of a redirect, names a port that no browser connects to.
"""

import asyncio
import secrets
from collections.abc import Iterable
from contextlib import suppress

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mom_pipeline.ui.guard import Refused

_GRAPHQL = "/graphql"
# Of one connection, or of a body that is written anew.
_OWN = {
    *(b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    *(b"accept-encoding", b"content-length", b"date", b"server"),
}


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
