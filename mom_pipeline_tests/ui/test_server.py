"""What other web pages could try against the webserver, and what its own pages need."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from mom_pipeline.ui.daemon import DAEMON_MODULE
from mom_pipeline_tests.ui.graphql_requests import (
    count_runs,
    launch_by_get,
    launch_by_post,
    send,
)
from mom_pipeline_tests.ui.processes import UiServer, descendants, running_ui

GRAPHQL_WS = Subprotocol("graphql-ws")


@pytest.fixture(scope="module")
def ui_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """The toy definitions without the daemon: a run that is started waits in the queue."""
    data_dir = tmp_path_factory.mktemp("ui") / "data"
    with running_ui(data_dir, "--no-daemon", "--port", "0") as server:
        yield server


def test_it_listens_on_loopback_only(ui_server: UiServer) -> None:
    hexadecimal_port = f":{ui_server.port:04X}"
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[1].endswith(hexadecimal_port) and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F{hexadecimal_port}"]
    below = descendants(ui_server.process.pid).values()
    assert not any(DAEMON_MODULE in command for command in below)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "[::1]:1"])
def test_a_foreign_host_is_refused(ui_server: UiServer, host: str) -> None:
    before = count_runs(ui_server)
    status, text = launch_by_post(ui_server, Host=host.format(port=ui_server.port))
    assert status == 403
    assert text.startswith("Refused: Host must be one of 127.0.0.1:")
    assert count_runs(ui_server) == before


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "null"]
)
def test_a_foreign_origin_is_refused(ui_server: UiServer, origin: str) -> None:
    before = count_runs(ui_server)
    status, text = launch_by_post(ui_server, Origin=origin.format(port=ui_server.port))
    assert status == 403
    assert text.startswith("Refused: Origin must be one of http://127.0.0.1:")
    assert count_runs(ui_server) == before


def test_a_foreign_form_is_refused(ui_server: UiServer) -> None:
    status, _ = send(
        ui_server,
        "POST",
        "/report_asset_materialization/unrelated_number",
        headers={"Origin": "http://evil.example", "Content-Type": "text/plain"},
    )
    assert status == 403


@pytest.mark.parametrize("accept", [None, "*/*", "image/avif,image/webp,*/*"])
def test_a_mutation_by_get_is_refused(ui_server: UiServer, accept: str | None) -> None:
    before = count_runs(ui_server)
    status, text = launch_by_get(ui_server, **({"Accept": accept} if accept else {}))
    assert status == 403
    assert "GraphQL is answered by POST only, found GET" in text
    assert count_runs(ui_server) == before


@pytest.mark.parametrize("target", ["/graphql?%71uery=%7Bversion%7D", "/%67raphql?query="])
def test_a_disguised_query_by_get_is_refused(ui_server: UiServer, target: str) -> None:
    assert send(ui_server, "GET", target)[0] == 403


def test_a_websocket_of_a_foreign_origin_is_refused(ui_server: UiServer) -> None:
    address = f"ws://127.0.0.1:{ui_server.port}/graphql"
    with (
        pytest.raises(InvalidStatus) as refusal,
        connect(address, origin=Origin("http://evil.example"), subprotocols=[GRAPHQL_WS]),
    ):
        pass
    assert refusal.value.response.status_code == 403
    assert b"Origin must be one of" in refusal.value.response.body


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_the_same_mutation_by_post_from_its_own_page_starts_a_run(
    ui_server: UiServer, name: str
) -> None:
    before = count_runs(ui_server)
    host = f"{name}:{ui_server.port}"
    status, text = launch_by_post(ui_server, Host=host, Origin=f"http://{host}")
    assert (status, json.loads(text)["data"]["launchRun"]["__typename"]) == (
        200,
        "LaunchRunSuccess",
    )
    assert count_runs(ui_server) == before + 1


def test_a_query_by_post_without_a_browser_is_answered(ui_server: UiServer) -> None:
    body, headers = '{"query": "{ version }"}', {"Content-Type": "application/json"}
    status, text = send(ui_server, "POST", "/graphql", body, headers)
    assert (status, json.loads(text)["data"]["version"]) == (200, "1.13.27")


@pytest.mark.parametrize("path", ["/", "/asset-groups", "/graphql", "/graphql?query=%7Bversion%7D"])
def test_a_page_is_served(ui_server: UiServer, path: str) -> None:
    status, text = send(ui_server, "GET", path, headers={"Accept": "text/html"})
    assert status == 200
    assert "<html" in text


def test_other_pages_may_not_frame_these(ui_server: UiServer) -> None:
    with urllib.request.urlopen(ui_server.address, timeout=60) as response:
        assert response.headers["X-Frame-Options"] == "SAMEORIGIN"


def test_a_websocket_of_its_own_page_is_served(ui_server: UiServer) -> None:
    address = f"ws://127.0.0.1:{ui_server.port}/graphql"
    with connect(address, origin=Origin(ui_server.address), subprotocols=[GRAPHQL_WS]) as websocket:
        websocket.send('{"type": "connection_init"}')
        assert json.loads(websocket.recv(timeout=30)) == {"type": "connection_ack"}
