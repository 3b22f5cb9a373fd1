"""Who may ask, by the headers that browsers send and pages cannot set; and how slowly."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from mom_pipeline.ui import guard
from mom_pipeline.ui.guard import LoopbackGuard

Headers = dict[str, str] | list[tuple[str, str]]
HOST = "127.0.0.1:3000"
OWN = f"http://{HOST}"
LINK = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}


def site(value: str) -> dict[str, str]:
    return {"sec-fetch-site": value}


def asked(method: str, headers: Headers, port: int = 3000) -> int:
    """The status of a request; Host is the own one unless given."""
    given = list(headers.items()) if isinstance(headers, dict) else headers
    if "host" not in dict(given):
        given = [*given, ("host", HOST)]
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


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("headers", [{}, site("same-origin"), {"origin": OWN}])
def test_programs_and_own_pages_may_ask(method: str, headers: Headers) -> None:
    assert asked(method, headers) == 200


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 403)])
def test_an_address_that_was_typed_only_reads(method: str, status: int) -> None:
    assert asked(method, site("none")) == status


@pytest.mark.parametrize("value", ["cross-site", "same-site", "SAME-ORIGIN", "", "same-origin, x"])
def test_another_site_is_refused_whatever_the_method(value: str) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS"):
        assert asked(method, site(value)) == 403
        assert asked(method, [*site(value).items(), ("sec-fetch-site", "same-origin")]) == 403


@pytest.mark.parametrize("value", ["cross-site", "same-site"])
def test_a_link_on_another_site_opens_a_page(value: str) -> None:
    assert asked("GET", LINK | site(value)) == 200


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT"])
def test_a_navigation_of_another_site_only_reads(method: str) -> None:
    assert asked(method, LINK) == 403


@pytest.mark.parametrize(
    "change",
    [
        *({"sec-fetch-dest": value} for value in ("iframe", "object", "embed", "empty", "")),
        *({"sec-fetch-mode": value} for value in ("no-cors", "cors", "Navigate")),
        {"origin": "null"},
    ],
)
def test_what_is_no_link_is_refused(change: dict[str, str]) -> None:
    assert asked("GET", LINK | change) == 403


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "http://127.0.0.1:3001", "https://127.0.0.1:3000", "null", ""),
        # Another program of this machine may listen there, on the same port.
        *("http://localhost:3000", "http://[::1]:3000"),
    ],
)
def test_another_origin_is_refused(origin: str) -> None:
    assert asked("POST", {"origin": origin}) == 403
    assert asked("POST", [("origin", OWN), ("origin", origin)]) == 403


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_every_name_of_this_machine_is_a_host(name: str) -> None:
    host = f"{name}:3000"
    assert asked("POST", {"host": host, "origin": f"http://{host.lower()}"}) == 200


@pytest.mark.parametrize("host", ["evil.example:3000", "127.0.0.1", "127.0.0.1:3001", ""])
def test_another_host_is_refused(host: str) -> None:
    assert asked("GET", {"host": host}) == 403
    assert asked("GET", [("host", HOST), ("host", host)]) == 403


def test_the_default_port_is_left_out() -> None:
    assert asked("GET", {"host": "localhost"}, port=80) == 200


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
        said = await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:  # closed before the server had read all that was sent
        said = b""
    writer.close()
    return said


async def _talk(port: int, server: uvicorn.Server) -> list[bytes]:
    running = asyncio.create_task(server.serve([socket.create_server(("127.0.0.1", port))]))
    while not server.started:
        await asyncio.sleep(0.01)
    bound = server.servers[0].sockets[0].getsockname()[1]
    said = await asyncio.gather(*(_ask(bound, part) for part in _PARTS for _ in range(60)))
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
        said = pool.submit(asyncio.run, _talk(0, uvicorn.Server(config))).result()
    assert len(said) == 240
    assert not any(b"200 OK" in answer for answer in said[:120])
    assert all(answer.count(b"200 OK") == 1 for answer in said[180:])
