"""The guard of a local server: only its own pages and programs of this machine are answered.

A server without a login would do what any page in the same browser asks for. The guard refuses

- a foreign Host: a name of the attacker that resolves to 127.0.0.1 (DNS rebinding),
- a foreign Origin: what another page posts, or its websocket; another port is another origin,
- a foreign Sec-Fetch-Site: what browsers send without an Origin, such as pictures and frames.
  A link on another page still opens a page of this server: GET of a whole document.

Pages cannot set these three headers. Browsers too old for Sec-Fetch-Site, and programs, send none:
so nothing behind the guard may change by GET. It is pure ASGI and knows nothing of Dagster.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_HTTP_PORT = 80
_OWN_PAGE, _ADDRESS_BAR = "same-origin", "none"


class Refused(Exception):
    """The status and the reason of a refusal; raised before the response has begun."""

    content_type = b"text/plain; charset=utf-8"

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def body(self) -> bytes:
        return f"Refused: {self}\n".encode()


class LoopbackGuard:
    """An ASGI application that lets only requests of its own address reach another one.

    That one may raise Refused as well.
    """

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in LOOPBACK_NAMES}
        if port == _DEFAULT_HTTP_PORT:  # browsers leave it out
            self._hosts.update(LOOPBACK_NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] != "lifespan":
                self._check(scope)
            await self._app(scope, receive, _forbidding_frames(send))
        except Refused as refusal:
            await _refuse(scope, send, refusal)

    def _check(self, scope: Scope) -> None:
        hosts = [host.lower() for host in header_values(scope, b"host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise Refused(403, _difference("Host", self._hosts, hosts))
        own = f"http://{hosts[0]}"
        origins = header_values(scope, b"origin")
        if any(origin != own for origin in origins):
            raise Refused(403, _difference("Origin", [own], origins))
        # A websocket always has an Origin; not all browsers take its site for http's.
        if scope["type"] == "http" and not (_is_own(scope) or _is_link(scope)):
            sites = header_values(scope, b"sec-fetch-site")
            raise Refused(403, _difference("Sec-Fetch-Site", [_OWN_PAGE], sites))


def header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def is_from_another_site(scope: Scope) -> bool:
    """Whether a browser says that a page of another origin caused the request."""
    return not {_OWN_PAGE, _ADDRESS_BAR}.issuperset(header_values(scope, b"sec-fetch-site"))


def _is_own(scope: Scope) -> bool:
    if scope["method"] in ("GET", "HEAD"):
        return not is_from_another_site(scope)
    return {_OWN_PAGE}.issuperset(header_values(scope, b"sec-fetch-site"))


def _is_link(scope: Scope) -> bool:
    """Whether the answer becomes a page of its own, which the one with the link cannot read."""
    return (
        scope["method"] == "GET"
        and header_values(scope, b"sec-fetch-mode") == ["navigate"]
        and header_values(scope, b"sec-fetch-dest") == ["document"]
    )


def _difference(header: str, expected: Iterable[str], received: list[str]) -> str:
    shown = ", ".join(received) or "none"
    return (
        f"{header} must be one of {', '.join(sorted(expected))}; found {shown}. "
        "These pages answer only to the machine they run on: open one of their addresses there."
    )


def _forbidding_frames(send: Send) -> Send:
    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            header = (b"x-frame-options", b"SAMEORIGIN")
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_with_header


async def _refuse(scope: Scope, send: Send, refusal: Refused) -> None:
    """Answer with the reason; a websocket gets it instead of the handshake."""
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
            return
        prefix = "websocket."
    headers = [(b"content-type", refusal.content_type), (b"connection", b"close")]
    start = {"type": f"{prefix}http.response.start", "status": refusal.status, "headers": headers}
    await send(start)
    await send({"type": f"{prefix}http.response.body", "body": refusal.body()})
