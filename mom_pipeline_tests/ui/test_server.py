"""Dagster's webserver behind the guard: what other pages could try, and what its own pages need."""

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

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
from mom_pipeline_tests.ui.processes import UiServer, descendants, inner_port, running_ui

GRAPHQL_WS = Subprotocol("graphql-ws")


@pytest.fixture(scope="module")
def ui_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """The toy definitions without the daemon: a run that is started waits in the queue."""
    data_dir = tmp_path_factory.mktemp("ui") / "data"
    with running_ui(data_dir, "--no-daemon") as server:
        yield server


def test_both_listen_on_loopback_only(ui_server: UiServer) -> None:
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    for port in (ui_server.port, inner_port(ui_server)):
        listening = [x[1] for x in lines if x[1].endswith(f":{port:04X}") and x[3] == "0A"]
        assert listening == [f"0100007F:{port:04X}"]
    below = descendants(ui_server.process.pid).values()
    assert not any("dagster-daemon" in command for command in below)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "evil.example:{}"),
        ("Origin", "https://127.0.0.1:{}"),
        ("Sec-Fetch-Site", "same-site"),
    ],
)
def test_a_foreign_request_is_refused(ui_server: UiServer, name: str, value: str) -> None:
    before = count_runs(ui_server)
    status, text = launch_by_post(ui_server, **{name: value.format(ui_server.port)})
    assert status == 403
    assert text.startswith(f"Refused: {name} must be one of ")
    assert count_runs(ui_server) == before


def test_a_mutation_by_get_is_refused(ui_server: UiServer) -> None:
    before = count_runs(ui_server)
    for headers in ({}, {"Accept": "text/html"}, {"Accept": "TEXT/HTML"}):
        status, text = launch_by_get(ui_server, **headers)
        assert status == 403
        assert "GraphQL is answered by POST only, found GET" in text
    assert count_runs(ui_server) == before


@pytest.mark.parametrize(
    ("method", "target", "refused"),
    [
        ("GET", "/graphql?%71uery=%7Bversion%7D", True),
        ("HEAD", "/graphql?query=%7Bversion%7D", True),
        ("GET", "/%67raphql?query=%7Bversion%7D", True),
        ("GET", "/graphql%0A?query=%7Bversion%7D", True),
        # Pages for Dagster, whose script says that there is no such page.
        ("GET", "/x/../graphql?query=%7Bversion%7D", False),
        ("GET", "/x/%2e%2e/graphql?query=%7Bversion%7D", False),
        ("GET", "//graphql?query=%7Bversion%7D", False),
    ],
)
def test_no_spelling_brings_a_query_by_get(
    ui_server: UiServer, method: str, target: str, refused: bool
) -> None:
    status, text = send(ui_server, method, target)
    assert (status == 403) == refused
    assert '"version"' not in text


def test_nothing_on_the_inner_port_is_of_use(ui_server: UiServer, page: Page) -> None:
    """A page of another name that resolves to this machine, on the very port of Dagster."""
    inner = f"http://evil.localhost:{inner_port(ui_server)}"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{inner_port(ui_server)}/graphql", timeout=60)
    answer = page.goto(f"{inner}/x")
    assert answer is not None
    assert answer.status == 404
    tried = """async () => {
      const followed = await fetch("/").then(answer => answer.url, error => "failed");
      const {type, url} = await fetch("/", {redirect: "manual"});
      const frame = document.createElement("iframe");
      frame.src = "/";
      await new Promise(done => { frame.onload = done; document.body.append(frame); });
      let shown = "hidden";
      try { shown = frame.contentWindow.location.href } catch {}
      const timed = performance.getEntriesByType("resource").map(entry => entry.name);
      return [followed, type, url, shown, ...timed];
    }"""
    followed, kind, url, shown, *timed = page.evaluate(tried)
    assert (followed, kind, shown) == ("failed", "opaqueredirect", "hidden")
    assert not [name for name in (url, *timed) if "127.0.0.1" in name]
    with pytest.raises(Exception, match="ERR_UNSAFE_PORT"):
        page.goto(inner)


def test_the_logs_and_the_debug_file_of_a_run_are_served(ui_server: UiServer) -> None:
    launch_by_post(ui_server)
    with history_in(ui_server.dagster_home) as instance:
        run_id = instance.get_runs(limit=1)[0].run_id
    log = ui_server.dagster_home / "storage" / run_id / "compute_logs" / "key.out"
    log.parent.mkdir(parents=True)
    log.write_text("printed")
    assert send(ui_server, "GET", f"/logs/{run_id}/compute_logs/key/out") == (200, "printed")
    assert send(ui_server, "GET", "/logs/%2e%2e/%2e%2e/dagster.yaml")[0] >= 400
    address = f"{ui_server.address}/download_debug/{run_id}"
    with urllib.request.urlopen(address, timeout=60) as response:
        assert run_id in gzip.decompress(response.read()).decode()


@pytest.mark.parametrize("target", ["the pages", "dagster-webserver"])
def test_a_foreign_page_changes_nothing(ui_server: UiServer, page: Page, target: str) -> None:
    requests = OpenRequests(page)
    address = ui_server.address
    if target == "dagster-webserver":
        address = f"http://127.0.0.1:{inner_port(ui_server)}"
    with foreign_server() as port:
        # Another port is the same site, another name is another site.
        for origin in (f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
            page.goto(origin)
            names = page.evaluate("server => attack(server)", address)
            assert len(set(names)) > 70
            requests.wait_for_their_end()
            for whole_page in ("followLink", "submitForm"):
                page.goto(origin)
                page.evaluate(f"server => {whole_page}(server)", address)
                page.wait_for_url(f"{address}/**")
    assert reported_events(ui_server) <= {"the own page"}
    own_page_reports(ui_server, page, "the own page")
    assert reported_events(ui_server) == {"the own page"}


def test_a_link_on_a_foreign_page_opens_an_asset(ui_server: UiServer, page: Page) -> None:
    with foreign_server() as port:
        page.goto(f"http://localhost:{port}")
        page.evaluate("address => { location = address }", f"{ui_server.address}/assets/{ASSET}")
        expect(page.get_by_role("button", name="Materialize")).to_be_visible()


def test_a_websocket_is_for_its_own_page(ui_server: UiServer) -> None:
    address = f"ws://127.0.0.1:{ui_server.port}/graphql"
    opened = partial(connect, address, subprotocols=[GRAPHQL_WS])
    with pytest.raises(InvalidStatus) as refusal, opened(origin=Origin("http://evil.example")):
        pass
    assert refusal.value.response.status_code == 403
    assert refusal.value.response.body.startswith(b"Refused: ")
    with opened(origin=Origin(ui_server.address)) as websocket:
        websocket.send('{"type": "connection_init"}')
        assert json.loads(websocket.recv(timeout=30)) == {"type": "connection_ack"}


def test_the_same_mutation_by_post_from_its_own_page_starts_a_run(ui_server: UiServer) -> None:
    before, host = count_runs(ui_server), f"localhost:{ui_server.port}"
    status, text = launch_by_post(ui_server, Host=host, Origin=f"http://{host}")
    started = json.loads(text)["data"]["launchRun"]["__typename"]
    assert (status, started) == (200, "LaunchRunSuccess")
    assert count_runs(ui_server) == before + 1


@pytest.mark.parametrize("path", ["/", "/asset-groups", "/graphql"])
def test_a_page_is_served_without_the_secret_and_for_no_frame(
    ui_server: UiServer, path: str
) -> None:
    request = urllib.request.Request(ui_server.address + path, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
        assert response.headers.get_all("X-Frame-Options") == ["SAMEORIGIN"]
        assert len(response.headers.get_all("Date")) == 1
    assert "<html" in text
    assert "127.0.0.1:1/" not in text
