"""Who may ask, by the headers that browsers send and pages cannot set; and how slowly."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from mom_pipeline.ui import guard
from mom_pipeline.ui.guard import LoopbackGuard

HOST = "127.0.0.1:3000"
OWN = f"http://{HOST}"
SITE, MODE, DEST = "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"
LINK = {SITE: "cross-site", MODE: "navigate", DEST: "document"}
ALL = ("GET", "HEAD", "POST", "PUT", "OPTIONS")
READING = ("GET", "HEAD")


def asked(method: str, *headers: tuple[str, str], port: int = 3000) -> int:
    """The status of a request; Host is the own one unless given."""
    given = headers if "host" in dict(headers) else (*headers, ("host", HOST))
    scope = {"type": "http", "method": method, "path": "/"}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in given]
    sent: list[Message] = []

    async def answer(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def send(message: Message) -> None:
        sent.append(message)

    # Nothing waits, so it needs no event loop; Playwright's runs in this thread.
    next(iter(LoopbackGuard(answer, port)(scope, receive, send).__await__()), None)
    assert sent[0]["status"] == 200 or sent[1]["body"].startswith(b"Refused: ")
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("allowed", "headers"),
    [
        # Programs and own pages.
        (ALL, {}),
        (ALL, {SITE: "same-origin"}),
        (ALL, {"origin": OWN}),
        *((ALL, {"host": f"{n}:3000"}) for n in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]")),
        # What was typed as an address, and a link on another site, only read.
        (READING, {SITE: "none"}),
        (("GET",), LINK),
        (("GET",), LINK | {SITE: "same-site"}),
        # What another site embeds, fetches or posts.
        *(
            ((), {SITE: s})
            for s in ("cross-site", "same-site", "SAME-ORIGIN", "", "same-origin, x")
        ),
        *(((), LINK | {DEST: dest}) for dest in ("iframe", "object", "embed", "empty", "")),
        *(((), LINK | {MODE: mode}) for mode in ("no-cors", "cors", "Navigate")),
        ((), LINK | {"origin": "null"}),
        # Another program of this machine may listen there, on the same port.
        *(((), {"origin": f"http://{host}"}) for host in ("localhost:3000", "[::1]:3000")),
        *(((), {"origin": f"http://{host}"}) for host in ("evil.example", "127.0.0.1:3001")),
        *(((), {"origin": origin}) for origin in ("https://127.0.0.1:3000", "null", "")),
        # A name that resolves to this machine.
        *(((), {"host": h}) for h in ("evil.example:3000", "127.0.0.1", "127.0.0.1:3001", "")),
    ],
)
def test_who_may_ask(allowed: tuple[str, ...], headers: dict[str, str]) -> None:
    for method in ALL:
        assert asked(method, *headers.items()) == (200 if method in allowed else 403)
    if not allowed:  # nor with the right header beside the wrong one
        name = next(iter(headers))
        right = {"host": HOST, "origin": OWN, SITE: "same-origin"}[name]
        assert asked("POST", *headers.items(), (name, right)) == 403


def test_the_default_port_is_left_out() -> None:
    assert asked("GET", ("host", "localhost"), port=80) == 200


_WHOLE = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
# Nothing; half a header; half a body; a whole request and then half of another.
_PARTS = (b"", _WHOLE[:20], _WHOLE[:-2], _WHOLE + _WHOLE[:20])


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def _ask(port: int, part: bytes) -> bytes:
    """Send a part of a request and wait until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(part)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:  # closed before the server had read all that was sent
        return b""
    finally:
        writer.close()


async def _talk(server: uvicorn.Server) -> list[bytes]:
    running = asyncio.create_task(server.serve([socket.create_server(("127.0.0.1", 0))]))
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    said = await asyncio.gather(*(_ask(port, part) for part in _PARTS for _ in range(60)))
    server.should_exit = True
    await running
    return said


def test_slow_clients_are_closed_and_whole_requests_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guard, "SECONDS_FOR_A_REQUEST", 1.0)
    config = uvicorn.Config(
        _echo, http=guard.TimedProtocol, ws="none", lifespan="off", log_level="error"
    )
    # In a thread: other tests may leave a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(asyncio.run, _talk(uvicorn.Server(config))).result()
    assert len(said) == 240
    assert not any(b"200 OK" in answer for answer in said[:120])
    assert all(answer.count(b"200 OK") == 1 for answer in said[180:])
