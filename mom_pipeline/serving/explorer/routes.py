"""Addresses of the explorer: its files, its answers, the reports, and /metrics."""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.serving.answers import (
    ComponentMap,
    ExplainedScore,
    History,
    Matches,
    ModelChanges,
)
from mom_pipeline.serving.messages import (
    DEFAULT_LIST,
    HEADERS,
    ListLength,
    QueryId,
    check_address,
    documented,
    json_answer,
    page,
    recommender_in_use,
)
from mom_pipeline.serving.monitoring import ServiceMetrics
from mom_pipeline.serving.registry import NoChampion

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="5" cy="6" r="4" '
    'fill="#0072b2"/><circle cx="11" cy="5" r="3" fill="#d55e00"/><circle cx="10" cy="12" r="3" '
    'fill="#009e73"/></svg>'
)
_KINDS = {".css": "text/css", ".js": "text/javascript"}
_CHANGES = 20
_REPORT = re.compile(r"(index|\d{4}-\d{2}-\d{2})\.html", re.ASCII)
# A report is complete in itself; its styles are inside of it, its pictures too.
_REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

explorer_router = APIRouter(generate_unique_id_function=lambda route: route.name)
_SearchText = Annotated[str, Query(max_length=MAX_ID, description="A part of an id or a name.")]


@cache
def _file(name: str) -> bytes:
    return (files("mom_pipeline.serving.explorer") / name).read_bytes()


@explorer_router.get("/", include_in_schema=False)
async def explorer() -> Response:
    """The page; everything on it is asked for by its script."""
    return page(_file("index.html"))


@explorer_router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Every address of the OpenAPI document, to read and to try."""
    return page(_file("docs.html"))


@explorer_router.get("/explorer.css", include_in_schema=False)
@explorer_router.get("/explorer.js", include_in_schema=False)
@explorer_router.get("/docs.js", include_in_schema=False)
async def part_of_a_page(request: Request) -> Response:
    """A file beside the pages, named by its route."""
    name = request.scope["route"].path.removeprefix("/")
    return Response(_file(name), headers=HEADERS, media_type=_KINDS[Path(name).suffix])


@explorer_router.get("/favicon.ico", include_in_schema=False)
@explorer_router.get("/icon.svg", include_in_schema=False)
async def icon() -> Response:
    return Response(_ICON, headers=HEADERS, media_type="image/svg+xml")


@explorer_router.get("/search", **documented(Matches, 422, 503))
async def search(request: Request, q: _SearchText = "", n: ListLength = DEFAULT_LIST) -> Response:
    """Users and items whose id, or name, holds a text; without one, the most active ones."""
    check_address(request, "q", "n")
    return json_answer(await run_in_threadpool(recommender_in_use(request).explorer.search, q, n))


@explorer_router.get("/history", **documented(History, 404, 422, 503))
async def history(request: Request, user: QueryId, n: ListLength = DEFAULT_LIST) -> Response:
    """What a user took, what counts most first."""
    check_address(request, "user", "n")
    return json_answer(recommender_in_use(request).explorer.history(user, n))


@explorer_router.get("/explain", **documented(ExplainedScore, 404, 422, 503))
async def explain(request: Request, user: QueryId, item: QueryId) -> Response:
    """A user's score of an item by part, by component and by item of the history."""
    check_address(request, "user", "item")
    return json_answer(await run_in_threadpool(recommender_in_use(request).explain, user, item))


@explorer_router.get("/components", **documented(ComponentMap, 422, 503))
async def components(request: Request) -> Response:
    """The components as a map, and their drift over the days where that is known."""
    check_address(request)
    explorer = recommender_in_use(request).explorer
    return json_answer(await run_in_threadpool(lambda: explorer.map))


@explorer_router.get("/promotions", **documented(ModelChanges, 422))
async def promotions(request: Request) -> Response:
    """What the gate, or a person, put in use and why; the newest first."""
    check_address(request)
    entries = await run_in_threadpool(request.app.state.champion.history)
    return json_answer(ModelChanges(changes=tuple(reversed(entries[-_CHANGES:]))))


@explorer_router.get("/reports", include_in_schema=False)
async def reports() -> Response:
    return RedirectResponse("/reports/", headers=HEADERS)


@explorer_router.get("/reports/", include_in_schema=False)
@explorer_router.get("/reports/{name}", include_in_schema=False)
async def report(request: Request, name: str = "index.html") -> Response:
    """A page of the folder of the reports, by its name alone: nothing else there can be read."""
    folder: Path | None = request.app.state.reports_dir
    if folder is None or not _REPORT.fullmatch(name):
        raise HTTPException(404, "a report is named after its day, such as 2024-03-28.html")
    try:
        content = await run_in_threadpool((folder / name).read_bytes)
    except FileNotFoundError as error:
        raise HTTPException(404, "there is no such report; `mom-pipeline report` writes it") from (
            error
        )
    return page(content, _REPORT_POLICY)


@explorer_router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    said: ServiceMetrics = request.app.state.metrics
    said.degraded.set(request.app.state.champion.problem is not None)
    said.model.clear()
    try:
        model = recommender_in_use(request).describe()
        said.model.labels(model.version).set(1)
        said.users.set(model.users)
        said.items.set(model.items)
    except NoChampion:
        pass
    return Response(generate_latest(said), headers=HEADERS, media_type=CONTENT_TYPE_PLAIN_0_0_4)
