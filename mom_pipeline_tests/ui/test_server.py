"""Dagster's webserver: what other web pages could try, and what its own pages need."""

import gzip
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from mom_pipeline.ui.daemon import DAEMON_MODULE
from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.ui.foreign_page import (
    ASSET,
    OpenRequests,
    foreign_server,
    own_page_reports,
    reported_events,
)
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


@pytest.mark.parametrize("accept", [None, "*/*", "text/html", "TEXT/HTML"])
def test_a_mutation_by_get_is_refused(ui_server: UiServer, accept: str | None) -> None:
    before = count_runs(ui_server)
    status, text = launch_by_get(ui_server, **({"Accept": accept} if accept else {}))
    assert status == 405
    assert "GraphQL is answered by POST only, found GET" in text
    assert count_runs(ui_server) == before


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/graphql?%71uery=%7Bversion%7D", 405),
        ("/%67raphql?query=%7Bversion%7D", 405),
        ("/graphql%0A?query=%7Bversion%7D", 404),
        ("/logs/%2e%2e/%2e%2e/secret/out", 404),
        ("/logs/x", 404),
        ("/notebook?path=/etc/passwd&repoLocName=x", 404),
        ("/download_debug/00000000-0000-0000-0000-000000000000", 404),
        ("/nonsense", 404),
    ],
)
def test_what_dagster_should_not_see_is_refused(
    ui_server: UiServer, target: str, status: int
) -> None:
    answered, text = send(ui_server, "GET", target)
    assert (answered, text[:9]) == (status, "Refused: ")


@pytest.mark.parametrize(
    "body",
    [
        '[{"query": "{ version }"}]',
        '{"query": 5}',
        '{"query": "query ($n: Int) { runsOrError(limit: $n) { __typename } }", '
        '"variables": {"n": "x"}}',
    ],
)
def test_a_malformed_operation_is_refused(ui_server: UiServer, body: str) -> None:
    status, text = send(ui_server, "POST", "/graphql", body, {"Content-Type": "application/json"})
    assert status == 400
    assert "Refused: " in text


def test_the_logs_and_the_debug_file_of_a_run_are_served(ui_server: UiServer) -> None:
    launch_by_post(ui_server)
    with history_in(ui_server.dagster_home) as instance:
        run_id = instance.get_runs(limit=1)[0].run_id
    log = ui_server.dagster_home / "storage" / run_id / "compute_logs" / "key.out"
    log.parent.mkdir(parents=True)
    log.write_text("printed")
    assert send(ui_server, "GET", f"/logs/{run_id}/compute_logs/key/out") == (200, "printed")
    address = f"{ui_server.address}/download_debug/{run_id}"
    with urllib.request.urlopen(address, timeout=60) as response:
        assert run_id in gzip.decompress(response.read()).decode()


def test_a_foreign_page_changes_nothing(ui_server: UiServer, page: Page) -> None:
    requests = OpenRequests(page)
    with foreign_server() as port:
        # Another port is the same site, another name is another site.
        for origin in (f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
            page.goto(origin)
            names = page.evaluate("server => attack(server)", ui_server.address)
            assert len(set(names)) > 200
            requests.wait_for_their_end()
            for whole_page in ("followLink", "submitForm"):
                page.goto(origin)
                page.evaluate(f"server => {whole_page}(server)", ui_server.address)
                page.wait_for_url(f"{ui_server.address}/**")
    assert reported_events(ui_server) == set()
    own_page_reports(ui_server, page, "the own page")
    assert reported_events(ui_server) == {"the own page"}


def test_a_link_on_a_foreign_page_opens_an_asset(ui_server: UiServer, page: Page) -> None:
    with foreign_server() as port:
        page.goto(f"http://localhost:{port}")
        page.evaluate("address => { location = address }", f"{ui_server.address}/assets/{ASSET}")
        expect(page.get_by_role("button", name="Materialize")).to_be_visible()


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


@pytest.mark.parametrize("path", ["/", "/asset-groups", "/graphql"])
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
