"""The HTTP service: questions about the model in use, as JSON, the explorer, and reports.

It reads the registry, and written reports; the warehouse is never opened.
"""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving import answers
from mom_pipeline.serving.champion import NO_MODEL, Champion
from mom_pipeline.serving.messages import (
    DEFAULT_LIST,
    HEADERS,
    ONLY_OUR_FILES,
    QUESTION_BODY,
    BadRequest,
    CheckedRoute,
    Group,
    ItemsQuestion,
    ListLength,
    PathId,
    QueryId,
    Question,
    SearchText,
    Seen,
    UserQuestion,
    body_question,
    documented,
    first_problem,
    json_answer,
    page,
)
from mom_pipeline.serving.monitoring import Measured, ServiceMetrics
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import NoChampion

# Of these addresses, not of the program: it rises when an answer changes its form.
_INTERFACE = "3"
# Status and headers of a refusal. What is left of a bad body is not read, so its connection ends.
_REFUSED: dict[type[MomError], tuple[int, dict[str, str]]] = {
    BadRequest: (400, {"connection": "close"}),
    NoChampion: (503, {"retry-after": "5"}),
    answers.UnknownId: (404, {}),
    answers.InvalidQuestion: (422, {}),
}
_SHOWN_CHANGES = 20
_FILES = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/docs.js": ("docs.js", "text/javascript"),
    "/explorer.js": ("explorer.js", "text/javascript"),
    "/explorer.css": ("explorer.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/favicon.ico": ("icon.svg", "image/svg+xml"),
}
_REPORT = re.compile(r"(index|\d{4}-\d{2}-\d{2})\.html", re.ASCII)
# A report is complete in itself; its styles are inside of it, its pictures too.
_REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class _IdConvertor(PathConvertor):
    """An id in an address: any text, slashes and line ends too."""

    regex = r"[\s\S]+"


register_url_convertor("id", _IdConvertor())
_router = APIRouter(route_class=CheckedRoute, generate_unique_id_function=lambda route: route.name)
_get = _router.get


def create_app(champion: Champion, *, reports_dir: Path | None = None) -> FastAPI:
    """The ASGI application over a champion that is being watched. reports_dir: pages to show."""
    app = FastAPI(
        title="mom-pipeline",
        version=_INTERFACE,
        description="Questions about the promoted model.",
        # Our own, which need nothing from outside.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # Not included: that matches every address twice.
        routes=_router.routes,
        # An id that ends with a slash is another id.
        redirect_slashes=False,
        exception_handlers={
            MomError: _refused,
            RequestValidationError: _invalid,
            HTTPException: _no_such_page,
            ClientDisconnect: _gone,
        },
    )
    app.state.champion, app.state.reports_dir = champion, reports_dir
    app.state.metrics = ServiceMetrics()
    pictures = "img-src https: " if champion.shows_pictures else "img-src "
    app.state.policy = ONLY_OUR_FILES.replace("img-src ", pictures)
    app.add_middleware(Measured, metrics=app.state.metrics)
    return app


def _in_use(request: Request) -> Recommender:
    """The model that answers; NoChampion when there has been none yet."""
    champion: Champion = request.app.state.champion
    return champion.recommender()


# Questions. FastAPI runs a function that is not `async` in a thread of its pool.


@_get("/recommend/{user:id}", **documented(answers.Recommendations, 404, 422, 503))
def recommend(
    request: Request,
    user: PathId,
    n: ListLength = DEFAULT_LIST,
    group: Group = None,
    seen: Seen = None,
) -> Response:
    """The best items of a user; popular ones, marked as fallback, without a history."""
    recommender, hidden = _in_use(request), None if seen is None else seen == "false"
    among = recommender.choose(group=group)
    return json_answer(recommender.recommend(user, n, exclude_seen=hidden, among=among))


@_router.post(
    "/recommend",
    **documented(
        answers.Recommendations | answers.ManyRecommendations, 400, 404, 413, 415, 422, 503
    ),
    openapi_extra={"requestBody": QUESTION_BODY},
)
async def recommend_items(request: Request) -> Response:
    """The best items of somebody new, who took the given ones; of a user, with what they took
    since the model was made; or of several users.
    """
    question = await body_question(request)
    return json_answer(await run_in_threadpool(_lists, _in_use(request), question))


def _lists(
    recommender: Recommender, asked: Question
) -> answers.Recommendations | answers.ManyRecommendations:
    how: dict[str, Any] = {
        "n": asked.n,
        "exclude_seen": None if asked.seen is None else not asked.seen,
        "among": recommender.choose(asked.only, asked.without or (), asked.group),
    }
    if isinstance(asked, ItemsQuestion):
        return recommender.recommend_items(asked.items, **how)
    if isinstance(asked, UserQuestion):
        return recommender.recommend(asked.user, events=asked.items or (), **how)
    lists = tuple(recommender.recommend(user, **how) for user in asked.users)
    return answers.ManyRecommendations(model=recommender.version, lists=lists)


@_get("/similar/{item:id}", **documented(answers.SimilarItems, 404, 422, 503))
def similar(request: Request, item: PathId, n: ListLength = DEFAULT_LIST) -> Response:
    """Items that go with one, compared with how popular they are."""
    return json_answer(_in_use(request).similar(item, n))


@_get("/search", **documented(answers.Matches, 422, 503))
def search(request: Request, q: SearchText = "", n: ListLength = DEFAULT_LIST) -> Response:
    """Users and items whose id, or name, holds a text; without one, some people to look at."""
    return json_answer(_in_use(request).explorer.search(q, n))


@_get("/history", **documented(answers.History, 404, 422, 503))
def history(request: Request, user: QueryId, n: ListLength = DEFAULT_LIST) -> Response:
    """What a user took, the newest first."""
    return json_answer(_in_use(request).explorer.history(user, n))


@_get("/explain", **documented(answers.ExplainedScore, 404, 422, 503))
def explain(request: Request, user: QueryId, item: QueryId) -> Response:
    """A user's score of an item by part, by component and by item of the history."""
    return json_answer(_in_use(request).explain(user, item))


@_get("/items/{item:id}", **documented(answers.ItemUse, 404, 422, 503))
def item(request: Request, item: PathId) -> Response:
    """Who takes an item, by group and by day."""
    return json_answer(_in_use(request).explorer.item(item))


@_get("/groups", **documented(answers.Groups, 422, 503))
def groups(request: Request) -> Response:
    """Groups of people: what sets them apart, how large they are, and their share by day."""
    return json_answer(_in_use(request).explorer.groups)


@_get("/promotions", **documented(answers.ModelChanges, 422))
def promotions(request: Request) -> Response:
    """What the gate, or a person, put in use and why; the newest first."""
    champion: Champion = request.app.state.champion
    entries = champion.registry.history()[-_SHOWN_CHANGES:]
    return json_answer(answers.ModelChanges(changes=tuple(reversed(entries))))


@_get("/evaluations", **documented(answers.Evaluations, 422))
def evaluations(request: Request) -> Response:
    """How good the lists were by day, beside lists of popular items."""
    champion: Champion = request.app.state.champion
    return json_answer(answers.Evaluations(days=tuple(champion.registry.evaluated())))


_HEALTH = documented(answers.Health, 422)
_HEALTH["responses"][503] = {"model": answers.Health, "description": "No model is in use."}


@_get("/health", **_HEALTH)
async def health(request: Request) -> Response:
    """Whether a model is in use, and whether it is the promoted one."""
    champion: Champion = request.app.state.champion
    version, problem = champion.version(), champion.problem
    if version is None:
        said = answers.Health(status="unavailable", model=None, problem=problem or NO_MODEL)
        return json_answer(said, 503)
    said = answers.Health(status="degraded" if problem else "ok", model=version, problem=problem)
    return json_answer(said)


@_get("/model", **documented(answers.ModelInUse, 422, 503))
async def model(request: Request) -> Response:
    """What the model in use was made of."""
    return json_answer(_in_use(request).describe())


@_get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The service in OpenAPI."""
    return JSONResponse(request.app.openapi(), headers=HEADERS)


@_get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    state = request.app.state
    text = state.metrics.text(state.champion)
    return Response(text, headers=HEADERS, media_type=CONTENT_TYPE_PLAIN_0_0_4)


# Pages.


@cache
def _content(name: str) -> bytes:
    return (files("mom_pipeline.serving.explorer") / name).read_bytes()


async def explorer(request: Request) -> Response:
    """The explorer, the page that tries every address, and their files."""
    name, media_type = _FILES[request.scope["route"].path]
    return page(_content(name), request.app.state.policy, media_type)


for _address in _FILES:
    _router.add_api_route(_address, explorer, include_in_schema=False)


@_get("/reports", include_in_schema=False)
async def reports() -> Response:
    return RedirectResponse("/reports/", headers=HEADERS)


@_get("/reports/", include_in_schema=False)
@_get("/reports/{name}", include_in_schema=False)
def report(request: Request, name: str = "index.html") -> Response:
    """A page of the folder of the reports, by its name alone: nothing else there can be read."""
    folder: Path | None = request.app.state.reports_dir
    if folder is None or not _REPORT.fullmatch(name):
        raise HTTPException(404, "a report is named after its day, such as 2024-03-28.html")
    if (folder / name).exists():
        return page((folder / name).read_bytes(), _REPORT_POLICY)
    if name == "index.html":
        return page(_content("no_reports.html"))
    raise HTTPException(404, "there is no such report; `mom-pipeline report` writes it")


# Refusals.


async def _refused(request: Request, error: Exception) -> Response:
    """Answer an error of ours with its sentence."""
    kinds = (kind for kind in _REFUSED if isinstance(error, kind))
    if (kind := next(kinds, None)) is None:
        raise error
    status, headers = _REFUSED[kind]
    status = error.status if isinstance(error, BadRequest) else status
    return json_answer(answers.Error(error=str(error)), status, headers)


async def _invalid(request: Request, error: Exception) -> Response:
    errors = error.errors() if isinstance(error, RequestValidationError) else []
    return json_answer(answers.Error(error=first_problem(errors)), 422)


async def _gone(request: Request, error: Exception) -> Response:
    """Answer into the void, so that a client that left is no fault in the log."""
    return Response(status_code=499)


async def _no_such_page(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers) if error.headers else None
    said = answers.Error(error=f"{error.detail}; /docs lists what there is")
    return json_answer(said, error.status_code, headers)
