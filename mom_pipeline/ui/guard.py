"""The guard of a local server: only its own pages and programs of this machine are answered.

Dagster's webserver has no login, and executes a mutation that arrives by GET. Any page open in
the same browser could therefore start runs. The guard refuses

- a foreign Host: a name of the attacker that resolves to 127.0.0.1 (DNS rebinding),
- a foreign Origin: a request or websocket of another page,
- GraphQL by GET: a link or a picture, for which browsers send no Origin,

and forbids other pages to frame these ones. It is pure ASGI and knows nothing of Dagster.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
GRAPHQL_PATH = "/graphql"
_DEFAULT_HTTP_PORT = 80


class LoopbackGuard:
    """An ASGI application that lets only requests of its own address reach another one."""

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in LOOPBACK_NAMES}
        if port == _DEFAULT_HTTP_PORT:  # browsers leave it out
            self._hosts.update(LOOPBACK_NAMES)
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = None if scope["type"] == "lifespan" else self._reason_to_refuse(scope)
        if reason is None:
            await self._app(scope, receive, _forbidding_frames(send))
        else:
            await _refuse(scope, send, reason)

    def _reason_to_refuse(self, scope: Scope) -> str | None:
        hosts = _header_values(scope, b"host")
        if not hosts or not self._hosts.issuperset(hosts):
            return _difference("Host", self._hosts, hosts)
        origins = _header_values(scope, b"origin")
        if not self._origins.issuperset(origins):
            return _difference("Origin", self._origins, origins)
        if scope["type"] == "http" and _is_graphql_by_get(scope):
            return f"GraphQL is answered by POST only, found {scope['method']}. Send it by POST."
        return None


def _header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").lower() for key, value in scope["headers"] if key == name]


def _difference(header: str, expected: Iterable[str], received: list[str]) -> str:
    shown = ", ".join(received) or "none"
    return (
        f"{header} must be one of {', '.join(sorted(expected))}; found {shown}. "
        "These pages answer only to the machine they run on: open one of those addresses there."
    )


def _is_graphql_by_get(scope: Scope) -> bool:
    """Whether Dagster would execute a query that came in the address."""
    if scope["method"] == "POST" or scope["path"].rstrip("/") != GRAPHQL_PATH:
        return False
    accepted = _header_values(scope, b"accept")
    if accepted and "text/html" in accepted[0]:  # the GraphiQL page, which executes nothing
        return False
    return "query" in parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _forbidding_frames(send: Send) -> Send:
    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            header = (b"x-frame-options", b"SAMEORIGIN")
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_with_header


async def _refuse(scope: Scope, send: Send, reason: str) -> None:
    """Answer 403; a websocket gets it instead of the handshake."""
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008, "reason": "foreign origin"})
            return
        prefix = "websocket."
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    body = f"Refused: {reason}\n".encode()
    await send({"type": f"{prefix}http.response.start", "status": 403, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body})
