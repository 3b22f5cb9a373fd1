"""The HTTP service: questions about the promoted model, as JSON.

It reads the folders of the registry and nothing else; the warehouse is never opened.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.champion import Champion
from mom_pipeline.serving.docs_page import docs_page
from mom_pipeline.serving.errors import InvalidQuestion, UnknownItem
from mom_pipeline.serving.limits import (
    BadRequest,
    body_items,
    list_length,
    no_parameters,
    path_id,
)
from mom_pipeline.serving.openapi import openapi
from mom_pipeline.serving.registry import NoChampion

Endpoint = Callable[[Request], Awaitable[Response]]
_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
}


class _IdConvertor(Convertor[str]):
    """An id in an address: any text, slashes and line ends too."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


def create_app(champion: Champion) -> Starlette:
    """Return the ASGI application over a champion that is being watched."""

    async def recommend(request: Request) -> Response:
        user, n = path_id(request), list_length(request)
        return _json(asdict(await run_in_threadpool(champion.recommender().recommend, user, n)))

    async def recommend_items(request: Request) -> Response:
        no_parameters(request)
        items, n = await body_items(request)
        recommender = champion.recommender()
        return _json(asdict(await run_in_threadpool(recommender.recommend_items, items, n)))

    async def similar(request: Request) -> Response:
        item, n = path_id(request), list_length(request)
        return _json(asdict(await run_in_threadpool(champion.recommender().similar, item, n)))

    async def health(request: Request) -> Response:
        no_parameters(request)
        version, problem = champion.version(), champion.problem
        if version is None and problem is None:
            problem = "no model is promoted yet; run `mom-pipeline update`"
        status = "ok" if problem is None else "unavailable" if version is None else "degraded"
        value = {"status": status, "model": version, "problem": problem}
        return _json(value, 503 if version is None else 200)

    async def model(request: Request) -> Response:
        no_parameters(request)
        recommender = champion.recommender()
        sizes = {"users": recommender.n_users, "items": recommender.n_items}
        return _json(asdict(recommender.manifest) | sizes)

    async def schema(request: Request) -> Response:
        no_parameters(request)
        return _json(openapi())

    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(openapi()), headers=_HEADERS | _PAGE_HEADERS)

    routes = [
        Route("/recommend/{id:id}", recommend),
        Route("/recommend", recommend_items, methods=["POST"]),
        Route("/similar/{id:id}", similar),
        Route("/health", health),
        Route("/model", model),
        Route("/openapi.json", schema),
        Route("/", docs),
    ]
    handlers: dict[Any, Any] = {
        MomError: _refused,
        HTTPException: _no_such_page,
        ClientDisconnect: _gone,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    # An id that ends with a slash is another id.
    app.router.redirect_slashes = False
    return app


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, _HEADERS | (headers or {}), "application/json")


async def _refused(request: Request, error: Exception) -> Response:
    """Answer an error of ours with its sentence."""
    if isinstance(error, BadRequest):
        # What is left of a refused body is not read, so the connection ends with it.
        return _json({"error": str(error)}, error.status, {"connection": "close"})
    if isinstance(error, UnknownItem):
        return _json({"error": str(error)}, 404)
    if isinstance(error, InvalidQuestion):
        return _json({"error": str(error)}, 422)
    if isinstance(error, NoChampion):
        return _json({"error": str(error)}, 503, {"retry-after": "5"})
    raise error


async def _gone(request: Request, error: Exception) -> Response:
    """Answer into the void, so that a client that left is no fault in the log."""
    return Response(status_code=499)


async def _no_such_page(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers) if error.headers else None
    return _json({"error": f"{error.detail}; / lists what there is"}, error.status_code, headers)
