"""A page of another origin on this machine, and what its attempts left behind."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from dagster import AssetKey
from playwright.sync_api import Page, Request

from mom_pipeline_tests.dagster_history import history_in
from mom_pipeline_tests.ui.processes import UiServer

SCRIPT = Path(__file__).with_name("foreign_page.js")
ASSET = "unrelated_number"
SECONDS_TO_END = 30


class _ForeignPage(BaseHTTPRequestHandler):
    """The script on a page, and redirects to where the script says."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/redirect":
            wanted = parse_qs(parts.query)
            self.send_response(int(wanted["status"][0]))
            self.send_header("Location", wanted["to"][0])
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = f"<!doctype html><body><script>{SCRIPT.read_text()}</script></body>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def foreign_server() -> Iterator[int]:
    """Serve the page on another port of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _ForeignPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class OpenRequests:
    """The requests of a page that have no answer yet."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        page.context.on("request", lambda request: self._open.add(request))
        for end in ("requestfinished", "requestfailed"):
            page.context.on(end, lambda request: self._open.discard(request))

    def wait_for_their_end(self) -> None:
        for _ in range(SECONDS_TO_END * 10):
            self._page.wait_for_timeout(100)
            if not self._open:
                return
        raise AssertionError(f"without an answer: {[request.url for request in self._open]}")


def own_page_reports(server: UiServer, page: Page, name: str) -> None:
    """Send the mutation of the attempts from a page of the server itself."""
    page.goto(f"{server.address}/graphql")
    status = page.evaluate(
        f"async name => {{ {SCRIPT.read_text()}\nreturn (await report(name)).status }}", name
    )
    assert status == 200


def reported_events(server: UiServer) -> set[str | None]:
    """Descriptions of the events of the asset, read beside the server."""
    key = AssetKey(ASSET)
    with history_in(server.dagster_home) as instance:
        materialized = instance.fetch_materializations(key, limit=1000).records
        observed = instance.fetch_observations(key, limit=1000).records
    return {record.asset_materialization.description for record in materialized} | {
        record.event_log_entry.asset_observation.description for record in observed
    }
