"""What may be asked: the routes of Dagster's server, and the one form in which they reach it."""

import json
import re
from pathlib import Path
from typing import Any

import dagster_webserver
import pytest
from graphql import build_schema

from mom_pipeline.ui.dagster_requests import MAX_BODY_BYTES, DagsterRequests
from mom_pipeline.ui.guard import LoopbackGuard
from mom_pipeline_tests.ui.asgi import Recorder, ask, send_messages

SCHEMA = build_schema(
    "type Query { version: String, runs(limit: Int): Int } type Mutation { launch: Boolean } "
    "type Subscription { runs: Int }"
)
WEB_APPLICATION = Path(dagster_webserver.__file__).parent / "webapp" / "build"
NO_PAGES = {"404.html", "csp-header.txt", "index.html"}  # parts of Dagster's server itself
RUN = "5e0bf1d3-7d0e-4b0c-9ee1-6a8d6e2f1f57"
JSON = {"content-type": "application/json"}
LINK = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}


@pytest.fixture
def dagster() -> Recorder:
    return Recorder()


@pytest.fixture
def guard(dagster: Recorder) -> LoopbackGuard:
    return LoopbackGuard(DagsterRequests(dagster, SCHEMA, lambda run: run == RUN), 3000)


def post(guard: LoopbackGuard, request: Any, **headers: str) -> tuple[int, str]:
    return ask(guard, "POST", "/graphql", JSON | headers, json.dumps(request).encode())


@pytest.mark.parametrize("query", ["{ version }", "mutation { launch }"])
@pytest.mark.parametrize("spelled", ["application/json", "Application/JSON; charset=utf-8"])
def test_dagster_gets_the_operation_that_was_checked(
    guard: LoopbackGuard, dagster: Recorder, query: str, spelled: str
) -> None:
    request = {"query": query, "variables": {"name": "ä"}, "more": 1}
    headers = {"content-type": spelled, "content-length": "7", "transfer-encoding": "chunked"}
    body = json.dumps(request).encode("utf-16")
    address = "/graphql?op=Name&query=mutation{launch}"
    assert ask(guard, "POST", address, headers, body) == (200, "answered")
    expected = {"query": query, "variables": {"name": "ä"}, "operationName": None}
    assert json.loads(dagster.body.decode()) == expected
    assert dagster.headers[b"content-type"] == b"application/json"
    assert dagster.headers[b"content-length"] == str(len(dagster.body)).encode()
    assert b"transfer-encoding" not in dagster.headers
    assert dagster.scope["query_string"] == b""


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ([{"query": "{ version }"}], "one JSON object, not a batch; found list"),
        ("{ version }", "one JSON object, not a batch; found str"),
        (None, "found NoneType"),
        ({}, "query must be a text"),
        ({"query": 5}, "query must be a text"),
        ({"query": "{ version }", "variables": []}, "variables an object"),
        ({"query": "{ version }", "variables": "{}"}, "variables an object"),
        ({"query": "{ version"}, "Syntax Error: Expected Name, found <EOF>."),
        ({"query": ""}, "Syntax Error"),
        ({"query": "{a" * 20_000}, "nested too deeply"),
        ({"query": "{ \ud800 }"}, "Syntax Error"),
        ({"query": "{ version }", "variables": {"a": "\ud800"}}, "must be Unicode text"),
        ({"query": "{ version }", "operationName": "a"}, "operationName must be that of one"),
        ({"query": "{ version }", "operationName": [1]}, "operationName must be that of one"),
        ({"query": "query a { version } mutation b { launch }"}, "operationName must be"),
        ({"query": "fragment a on Query { version }"}, "operationName must be"),
        ({"query": "subscription { runs }"}, "a subscription needs a websocket"),
        (
            {"query": "query ($n: Int!) { runs(limit: $n) }", "variables": {"n": "x"}},
            "Variable '$n' got invalid value 'x'",
        ),
        ({"query": "query ($n: Int!) { runs(limit: $n) }"}, "was not provided"),
        ({"query": "query ($n: No!) { runs(limit: $n) }"}, "cannot be used as an input type"),
    ],
)
def test_a_body_of_another_shape_is_refused(
    guard: LoopbackGuard, dagster: Recorder, request_: Any, reason: str
) -> None:
    status, text = post(guard, request_)
    assert status == 400
    assert reason in text
    assert "Refused: " in text
    assert not dagster.scope


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000, b"{}{}"])
def test_a_body_that_is_not_json_is_refused(guard: LoopbackGuard, body: bytes) -> None:
    status, text = ask(guard, "POST", "/graphql", JSON, body)
    assert status == 400
    assert text.startswith("Refused: the body must be")


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "application/graphql",
        "application/json, text/plain",
    ],
)
def test_another_content_type_is_refused(
    guard: LoopbackGuard, dagster: Recorder, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    body = b'{"query": "mutation { launch }"}'
    for address in ("/graphql", "/graphql?query=mutation{launch}"):
        status, text = ask(guard, "POST", address, headers, body)
        assert (status, dagster.scope) == (415, {})
        assert "Content-Type must be application/json" in text


def test_a_body_that_is_too_long_or_cut_off_is_refused(guard: LoopbackGuard) -> None:
    scope = {"type": "http", "method": "POST", "path": "/graphql", "query_string": b""}
    chunk = {"type": "http.request", "body": b" " * (MAX_BODY_BYTES // 2 + 1), "more_body": True}
    assert send_messages(guard, scope, JSON, [chunk, chunk])[0]["status"] == 413
    end = {"type": "http.disconnect"}
    assert send_messages(guard, scope, JSON, [chunk, end])[0]["status"] == 400


ACCEPTED = ["*/*", "TEXT/HTML", "text/html", "application/json"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "get", "QUERY"])
def test_a_query_by_another_method_is_refused(
    guard: LoopbackGuard, dagster: Recorder, method: str
) -> None:
    for accept in ACCEPTED:
        for parameters in ("query=mutation{launch}", "%71uery=x", "x", "&"):
            status, _ = ask(guard, method, f"/graphql?{parameters}", {"accept": accept})
            assert (status, dagster.scope) == (405, {})


def test_the_address_of_graphql_is_a_page_whatever_is_accepted(
    guard: LoopbackGuard, dagster: Recorder
) -> None:
    for accept in ACCEPTED:
        assert ask(guard, "GET", "/graphql", {"accept": accept})[0] == 200
        assert dagster.headers[b"accept"] == b"text/html"


UNKNOWN_PATHS = [
    *("/graphql/", "//graphql", "/graphql\n", "/graphql\r", "/graphql\0", "/GRAPHQL", "/graphql."),
    *("/nonsense", "/v1", "", "*", "/index.html", "/assets\n", "/assetsx", "/runs/\x7f"),
    *("/notebook", "/dagit/notebook", "/vendor/", "/vendor/\0", "/server_info\n"),
    *("/download_debug/", "/download_debug/x", f"/download_debug/{RUN}\n"),
    *("/report_asset_check", "/report_asset_check/", "/report_asset_check/\n"),
]


@pytest.mark.parametrize("path", UNKNOWN_PATHS)
def test_nothing_is_served_at_an_unknown_path(
    guard: LoopbackGuard, dagster: Recorder, path: str
) -> None:
    for method in ("GET", "HEAD", "POST"):
        status, text = ask(guard, method, f"{path}?query=mutation{{launch}}", JSON, b"{}")
        assert (status, dagster.scope) == (404, {})
        assert text.startswith("Refused: nothing is served at ")


@pytest.mark.parametrize(
    "key", ["../../x", "x/../../y", "..", ".", "/etc/passwd", "x//y", "x/./y", "x\\..\\y", "%2e%2e"]
)
def test_a_log_outside_its_folder_is_not_served(
    guard: LoopbackGuard, dagster: Recorder, key: str
) -> None:
    for kind in ("out", "err"):
        assert ask(guard, "GET", f"/logs/{key}/{kind}")[0] == 404
        assert not dagster.scope


@pytest.mark.parametrize(
    "path", [f"/logs/{RUN}/compute_logs/key/out", f"/download_debug/{RUN}", "/server_info", "/runs"]
)
def test_pages_and_files_are_read_only(guard: LoopbackGuard, path: str) -> None:
    statuses = {method: ask(guard, method, path)[0] for method in ("GET", "HEAD", "POST", "PUT")}
    assert statuses == {"GET": 200, "HEAD": 200, "POST": 405, "PUT": 405}


def test_every_file_and_page_of_the_web_application_is_served(guard: LoopbackGuard) -> None:
    files = [path for path in WEB_APPLICATION.rglob("*") if path.is_file()]
    paths = {f"/{path.relative_to(WEB_APPLICATION)}" for path in files}
    code = "\n".join(path.read_text() for path in files if path.suffix == ".js")
    [pages] = re.findall(r'path:"/asset-groups\(.*?path:"\*"', code)
    paths |= set(re.findall(r'"(/[a-z-]+)', pages))
    assert {"/runs", "/favicon.png", "/vendor/graphiql/graphiql.min.js"} < paths
    assert not {path for path in paths if ask(guard, "GET", path)[0] != 200} ^ {
        f"/{name}" for name in NO_PAGES
    }


@pytest.mark.parametrize("path", ["/", "/assets/a/b", "/runs/x?query=y"])
def test_a_link_of_another_site_opens_a_page(guard: LoopbackGuard, path: str) -> None:
    assert ask(guard, "GET", path, LINK)[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/graphql", "/server_info", f"/download_debug/{RUN}", f"/logs/{RUN}/x/out", "/favicon.ico"],
)
def test_a_link_of_another_site_opens_nothing_else(guard: LoopbackGuard, path: str) -> None:
    status, text = ask(guard, "GET", path, LINK)
    assert (status, text[:36]) == (403, "Refused: another site may link to pa")


def test_a_report_of_a_program_is_passed_on(guard: LoopbackGuard, dagster: Recorder) -> None:
    path = "/report_asset_materialization/a/b?description=x"
    assert ask(guard, "POST", path, {"content-type": "text/plain"})[0] == 200
    assert (dagster.body, dagster.scope["query_string"]) == (b"", b"description=x")
    assert b"content-type" not in dagster.headers
    assert ask(guard, "POST", path, JSON, b'{ "description": "y" }')[0] == 200
    assert (dagster.body, dagster.headers[b"content-type"]) == (
        b'{"description": "y"}',
        b"application/json",
    )


@pytest.mark.parametrize("body", [b"{", b"[]", b"5"])
def test_a_malformed_report_is_refused(guard: LoopbackGuard, body: bytes) -> None:
    path = "/report_asset_check/a"
    assert ask(guard, "POST", path, JSON, body)[0] == 400
    assert ask(guard, "POST", path, {"content-type": "text/plain"}, body)[0] == 415
    assert ask(guard, "GET", path)[0] == 405


@pytest.mark.parametrize(("path", "passes"), [("/graphql", True), ("/", False), ("/x\n", False)])
def test_a_websocket_is_open_at_one_path(
    guard: LoopbackGuard, dagster: Recorder, path: str, passes: bool
) -> None:
    extensions: dict[str, Any] = {"websocket.http.response": {}}
    scope = {"type": "websocket", "path": path, "extensions": extensions}
    sent = send_messages(guard, scope, {}, [])
    assert bool(dagster.scope) == passes
    assert [message.get("status") for message in sent] == ([] if passes else [404, None])
