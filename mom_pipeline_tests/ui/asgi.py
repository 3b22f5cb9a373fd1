"""An ASGI application that remembers what reached it, and requests to one in front of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mom_pipeline.ui.guard import App, Message, Receive, Scope, Send

HOST = "127.0.0.1:3000"
Headers = dict[str, str] | list[tuple[str, str]]


@dataclass
class Recorder:
    """Answers everything with 200, and keeps scope and body."""

    scope: Scope = field(default_factory=dict)
    body: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        if scope["type"] == "http":
            self.body = (await receive())["body"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"answered"})

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.scope["headers"])


def ask(
    app: App, method: str, path: str = "/", headers: Headers | None = None, body: bytes = b""
) -> tuple[int, str]:
    """Status and text of one request; `path` is decoded, as an application gets it."""
    path, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    sent = send_messages(app, scope, headers, [{"type": "http.request", "body": body}])
    return sent[0]["status"], sent[1]["body"].decode()


def send_messages(
    app: App, scope: Scope, headers: Headers | None, received: Iterable[Message]
) -> list[dict[str, Any]]:
    """What an application sends after these messages; Host is the own one unless given."""
    given = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
    if "host" not in [name for name, _ in given]:
        given.append(("host", HOST))
    scope = {**scope, "headers": [(name.encode(), value.encode()) for name, value in given]}
    sent: list[dict[str, Any]] = []
    messages = iter(received)

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(dict(message))

    # Nothing waits, so it needs no event loop; Playwright's runs in this thread.
    next(iter(app(scope, receive, send).__await__()), None)
    return sent
