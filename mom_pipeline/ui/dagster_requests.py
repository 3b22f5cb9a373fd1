"""What Dagster's webserver is asked: the known routes only, each rewritten to one plain form.

Dagster executes a mutation that arrives by GET, reads a content type wherever the word stands in
it, and fails with a traceback on a body of another shape. So nothing here depends on how a
request is spelled: method and path say what it is, a GraphQL document is parsed, and Dagster
gets the request that was checked, not the one that came. Its routes: `build_routes` in
dagster_webserver/webserver.py; its pages: `ContentRoot` in the sources of its web application.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from graphql import (
    GraphQLError,
    GraphQLSchema,
    OperationType,
    get_operation_ast,
    get_variable_values,
    parse,
)

from mom_pipeline.ui.guard import (
    App,
    Message,
    Receive,
    Refused,
    Scope,
    Send,
    header_values,
    is_from_another_site,
)

MAX_BODY_BYTES = 16 * 2**20
_CONTENT_HEADERS = (b"content-type", b"content-length", b"transfer-encoding")
_GRAPHQL = "/graphql"
# Matched as a whole. Dagster's own patterns also match a path that ends with a line feed.
_TEXT = r"[^\x00-\x1f\x7f]"
_PAGE = re.compile(
    "/|/(?:asset-groups|assets|automation|backfills|concurrency|config|deployment|guess|health|jobs"
    rf"|locations|overview|runs|snapshots)(?:/{_TEXT}*)?"
)
_FILE = re.compile(
    rf"/(?:_next|vendor)/{_TEXT}+|/favicon[a-z-]*\.(?:ico|png|svg)|/Dagster_world\.mp4"
    r"|/manifest\.json|/robots\.txt|/server_info|/dagit_info"
)
_LOG = re.compile(r"/logs/(?:(?!\.\.?/)[^/\\%\x00-\x1f\x7f]+/)+(?:out|err)")
_RUN = re.compile(rf"/download_debug/((?:(?!/){_TEXT})+)")
_REPORT = re.compile(rf"/report_asset_(?:materialization|check|observation)/{_TEXT}+")


class RefusedOperation(Refused):
    """A refusal in the form in which clients of GraphQL read errors."""

    content_type = b"application/json"

    def body(self) -> bytes:
        return json.dumps({"data": None, "errors": [{"message": f"Refused: {self}"}]}).encode()


class DagsterRequests:
    """An ASGI application that passes known requests on to Dagster's; raises Refused otherwise."""

    def __init__(self, app: App, schema: GraphQLSchema, has_run: Callable[[str], bool]) -> None:
        self._app = app
        self._schema = schema
        self._has_run = has_run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope, receive = await self._checked(scope, receive)
        elif scope["type"] == "websocket" and scope["path"] != _GRAPHQL:
            raise Refused(404, f"a websocket is open at {_GRAPHQL} only; found {scope['path']!r}")
        await self._app(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        path: str = scope["path"]
        if not _PAGE.fullmatch(path) and is_from_another_site(scope):
            raise Refused(403, f"another site may link to pages only; found {path!r}")
        if path == _GRAPHQL:
            return await self._graphql(scope, receive)
        if _REPORT.fullmatch(path):
            _require_method(scope, "POST")
            body = await _read(receive)
            return _with_body(scope, receive, _json_object(scope, body) if body else None)
        if not self._is_readable(path):
            raise Refused(404, f"nothing is served at {path!r}; open / and follow its links")
        _require_method(scope, "GET", "HEAD")
        return scope, receive

    def _is_readable(self, path: str) -> bool:
        if run := _RUN.fullmatch(path):
            return self._has_run(run[1])
        return any(kind.fullmatch(path) for kind in (_PAGE, _FILE, _LOG))

    async def _graphql(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        _require_method(scope, "GET", "POST")
        if scope["method"] == "POST":
            request = _json_object(scope, await _read(receive))
            self._check_operation(request)
            checked = {name: request.get(name) for name in ("query", "variables", "operationName")}
            return _with_body({**scope, "query_string": b""}, receive, checked)
        if scope["query_string"]:
            raise Refused(405, "GraphQL is answered by POST only, found GET; send it by POST")
        kept = [header for header in scope["headers"] if header[0] != b"accept"]
        return {**scope, "headers": [*kept, (b"accept", b"text/html")]}, receive  # GraphiQL

    def _check_operation(self, request: dict[str, Any]) -> None:
        query, variables = request.get("query"), request.get("variables")
        if not isinstance(query, str) or not isinstance(variables, dict | None):
            raise RefusedOperation(400, "query must be a text and variables an object; correct it")
        try:
            operation = get_operation_ast(parse(query), request.get("operationName"))
        except GraphQLError as error:
            raise RefusedOperation(400, error.message) from error
        if operation is None:
            raise RefusedOperation(400, "operationName must be that of one operation in query")
        if operation.operation is OperationType.SUBSCRIPTION:
            raise RefusedOperation(400, "a subscription needs a websocket; found POST")
        values = get_variable_values(self._schema, operation.variable_definitions, variables or {})
        if isinstance(values, list):
            raise RefusedOperation(400, values[0].message)


def _require_method(scope: Scope, *methods: str) -> None:
    if scope["method"] not in methods:
        raise Refused(405, f"method must be {' or '.join(methods)}; found {scope['method']}")


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the body must be complete, but the connection ended before")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise Refused(413, f"a body may have {MAX_BODY_BYTES} bytes; send less")
        more = message.get("more_body", False)
    return bytes(body)


def _json_object(scope: Scope, body: bytes) -> dict[str, Any]:
    types = [value.split(";")[0].strip().lower() for value in header_values(scope, b"content-type")]
    if types != ["application/json"]:
        raise Refused(415, f"Content-Type must be application/json; found {types or 'none'}")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body must be JSON: {error}; correct it") from error
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise Refused(400, f"the body must be one JSON object, not a batch; found {kind}")
    return value


def _with_body(
    scope: Scope, receive: Receive, value: dict[str, Any] | None
) -> tuple[Scope, Receive]:
    """Return the request with this JSON as its body, or with none."""
    kept = [header for header in scope["headers"] if header[0] not in _CONTENT_HEADERS]
    body = b""
    if value is not None:
        body = _encoded(value)
        length = str(len(body)).encode()
        kept += [(b"content-type", b"application/json"), (b"content-length", length)]
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_checked() -> Message:
        return unread.pop() if unread else await receive()

    return {**scope, "headers": kept}, receive_checked


def _encoded(value: dict[str, Any]) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Refused(400, f"the body must be Unicode text: {error.reason}; correct it") from error
