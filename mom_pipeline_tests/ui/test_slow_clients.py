"""Clients that never finish their request, beside one that does, on a real socket."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvicorn

from mom_pipeline.ui import slow_clients

_WHOLE = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
# Nothing; half a header; half a body; a whole request and then half of another.
_PARTS = (b"", _WHOLE[:20], _WHOLE[:-2], _WHOLE + _WHOLE[:20])


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def ask(port: int, part: bytes) -> bytes:
    """Send a part of a request and wait until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(part)
    try:
        said = await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:  # closed before the server had read all that was sent
        said = b""
    writer.close()
    return said


async def talk(port: int, server: uvicorn.Server) -> list[bytes]:
    running = asyncio.create_task(server.serve([socket.create_server(("127.0.0.1", port))]))
    while not server.started:
        await asyncio.sleep(0.01)
    bound = server.servers[0].sockets[0].getsockname()[1]
    said = await asyncio.gather(*(ask(bound, part) for part in _PARTS for _ in range(60)))
    server.should_exit = True
    await running
    return said


def test_slow_clients_are_closed_and_whole_requests_answered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slow_clients, "SECONDS_FOR_A_REQUEST", 1.0)
    config = uvicorn.Config(
        app, http=slow_clients.TimedProtocol, ws="none", lifespan="off", log_level="error"
    )
    # In a thread: other tests may leave a loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(asyncio.run, talk(0, uvicorn.Server(config))).result()
    assert len(said) == 240
    assert not any(b"200 OK" in answer for answer in said[:120])
    assert all(answer.count(b"200 OK") == 1 for answer in said[180:])
