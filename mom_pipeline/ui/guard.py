"""The guard of a local server: only its own pages and programs of this machine are answered.

A server without a login would do what any page in the same browser asks for. The guard refuses

- a foreign Host: a name of the attacker that resolves to 127.0.0.1 (DNS rebinding),
- a foreign Origin: what another page posts, or its websocket; another port is another origin,
- a foreign Sec-Fetch-Site: what another page embeds or fetches. Its links may open a page.

Pages cannot set these headers. Old browsers and programs send no Sec-Fetch-Site: so nothing behind
the guard may change by GET.
"""

import asyncio
from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SECONDS_FOR_A_REQUEST = 10.0
_DEFAULT_HTTP_PORT = 80


class Refused(Exception):
    """The reason of a refusal; raised before the response has begun."""


class LoopbackGuard:
    """Lets only requests of its own address, or of named origins, reach an ASGI application."""

    def __init__(self, app: ASGIApp, port: int, origins: Iterable[str] = ()) -> None:
        self._app, self._origins = app, frozenset(origins)
        self._hosts = {f"{name}:{port}" for name in LOOPBACK_NAMES}
        if port == _DEFAULT_HTTP_PORT:  # browsers leave it out
            self._hosts.update(LOOPBACK_NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] != "lifespan":
                self._check(scope)
            await self._app(scope, receive, send)
        except Refused as refusal:  # a websocket gets it instead of the handshake
            answer = PlainTextResponse(f"Refused: {refusal}\n", 403, {"connection": "close"})
            await answer(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        hosts = [host.lower() for host in _values(scope, b"host")]
        if len(hosts) != 1:
            raise Refused(f"one Host must be named, found {len(hosts)}")
        _require("Host", self._hosts, hosts)
        if (origins := _values(scope, b"origin")) and self._origins.issuperset(origins):
            return
        _require("Origin", {f"http://{hosts[0]}"} | self._origins, origins)
        # A websocket always has an Origin; not all browsers take its site for http's.
        if scope["type"] == "http" and not _is_link(scope):
            # What was typed as an address only reads.
            typed = {"none"} if scope["method"] in ("GET", "HEAD") else set()
            _require("Sec-Fetch-Site", {"same-origin"} | typed, _values(scope, b"sec-fetch-site"))


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _require(header: str, expected: set[str], found: Iterable[str]) -> None:
    for value in found:
        if value not in expected:
            raise Refused(
                f"{header} must be one of {', '.join(sorted(expected))}; found {value}. These pages"
                " answer only to the machine they run on: open one of their addresses there."
            )


def _is_link(scope: Scope) -> bool:
    """Whether the answer becomes a page of its own, which the one with the link cannot read."""
    return (
        scope["method"] == "GET"
        and _values(scope, b"sec-fetch-mode") == ["navigate"]
        and _values(scope, b"sec-fetch-dest") == ["document"]
    )


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, closing a connection whose request does not become complete."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, None)

    def _look(self, before: object) -> None:
        """Close the connection if it waits for the same request as at the last look."""
        waits = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        if waits and self.cycle is before:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, self.cycle)
