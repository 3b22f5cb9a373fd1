"""The HTTP service: questions about the model in use, as JSON, and the explorer.

It reads the registry, and written reports; the warehouse is never opened.
"""

from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.answers import (
    Error,
    Health,
    InvalidQuestion,
    ManyRecommendations,
    ModelInUse,
    Recommendations,
    SimilarItems,
    UnknownGroup,
    UnknownItem,
    UnknownUser,
)
from mom_pipeline.serving.champion import NO_MODEL, Champion
from mom_pipeline.serving.explorer.routes import explorer_router
from mom_pipeline.serving.messages import (
    DEFAULT_LIST,
    HEADERS,
    QUESTIONS,
    BadRequest,
    Group,
    ItemsQuestion,
    ListLength,
    PathId,
    Question,
    UserQuestion,
    body_question,
    check_address,
    documented,
    first_problem,
    json_answer,
    recommender_in_use,
)
from mom_pipeline.serving.monitoring import Measured, ServiceMetrics
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import NoChampion

# Of these addresses, not of the program: it rises when an answer changes its form.
_INTERFACE = "2"
_ANY_QUESTION = {"anyOf": [kind.model_json_schema() for kind in QUESTIONS]}


class _IdConvertor(Convertor[str]):
    """An id in an address: any text, slashes and line ends too."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())
_router = APIRouter(generate_unique_id_function=lambda route: route.name)


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
        routes=[*_router.routes, *explorer_router.routes],
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
    # Inside of the other one, which hands on another scope than the one it got.
    app.add_middleware(Measured, metrics=app.state.metrics)
    app.add_middleware(_HeadLikeGet)
    return app


class _HeadLikeGet:
    """Answers HEAD like GET; the server leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


@_router.get("/recommend/{user:id}", **documented(Recommendations, 404, 422, 503))
async def recommend(
    request: Request, user: PathId, n: ListLength = DEFAULT_LIST, group: Group = None
) -> Response:
    """The best items of a user; popular ones, marked as fallback, without a history."""
    check_address(request, "n", "group")
    asked = UserQuestion.model_construct(user=user, n=n, group=group)
    return json_answer(await run_in_threadpool(_answer, recommender_in_use(request), asked))


@_router.post(
    "/recommend",
    **documented(Recommendations | ManyRecommendations, 400, 404, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _ANY_QUESTION}},
        }
    },
)
async def recommend_items(request: Request) -> Response:
    """The best items of somebody new, who took the given ones; of a user, with what they took
    since the model was made; or of several users.
    """
    check_address(request)
    asked = await body_question(request)
    return json_answer(await run_in_threadpool(_answer, recommender_in_use(request), asked))


def _answer(recommender: Recommender, asked: Question) -> Recommendations | ManyRecommendations:
    among, n = recommender.choose(asked.choice), asked.n
    if isinstance(asked, ItemsQuestion):
        return recommender.recommend_items(asked.items, n, among=among)
    if isinstance(asked, UserQuestion):
        return recommender.recommend(asked.user, n, events=asked.items or (), among=among)
    lists = tuple(recommender.recommend(user, n, among=among) for user in asked.users)
    return ManyRecommendations(model=recommender.version, lists=lists)


@_router.get("/similar/{item:id}", **documented(SimilarItems, 404, 422, 503))
async def similar(request: Request, item: PathId, n: ListLength = DEFAULT_LIST) -> Response:
    """Items that go with one, compared with how popular they are."""
    check_address(request, "n")
    recommender = recommender_in_use(request)
    return json_answer(await run_in_threadpool(recommender.similar, item, n))


_HEALTH = documented(Health, 422)
_HEALTH["responses"][503] = {"model": Health, "description": "No model is in use."}


@_router.get("/health", **_HEALTH)
async def health(request: Request) -> Response:
    """Whether a model is in use, and whether it is the promoted one."""
    check_address(request)
    champion: Champion = request.app.state.champion
    version, problem = champion.version(), champion.problem
    if version is None:
        said = Health(status="unavailable", model=None, problem=problem or NO_MODEL)
        return json_answer(said, 503)
    return json_answer(
        Health(status="degraded" if problem else "ok", model=version, problem=problem)
    )


@_router.get("/model", **documented(ModelInUse, 422, 503))
async def model(request: Request) -> Response:
    """What the model in use was made of."""
    check_address(request)
    return json_answer(recommender_in_use(request).describe())


@_router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The service in OpenAPI."""
    check_address(request)
    return JSONResponse(request.app.openapi(), headers=HEADERS)


async def _refused(request: Request, error: Exception) -> Response:
    """Answer an error of ours with its sentence."""
    said = Error(error=str(error))
    if isinstance(error, BadRequest):
        # What is left of a refused body is not read, so the connection ends with it.
        return json_answer(said, error.status, {"connection": "close"})
    if isinstance(error, UnknownUser | UnknownItem | UnknownGroup):
        return json_answer(said, 404)
    if isinstance(error, InvalidQuestion):
        return json_answer(said, 422)
    if isinstance(error, NoChampion):
        return json_answer(said, 503, {"retry-after": "5"})
    raise error


async def _invalid(request: Request, error: Exception) -> Response:
    errors = error.errors() if isinstance(error, RequestValidationError) else []
    return json_answer(Error(error=first_problem(errors)), 422)


async def _gone(request: Request, error: Exception) -> Response:
    """Answer into the void, so that a client that left is no fault in the log."""
    return Response(status_code=499)


async def _no_such_page(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers) if error.headers else None
    said = Error(error=f"{error.detail}; /docs lists what there is")
    return json_answer(said, error.status_code, headers)
