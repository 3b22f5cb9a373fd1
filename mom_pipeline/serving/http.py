"""The HTTP service: questions about the promoted model, as JSON, and the explorer.

It reads the registry, and for the explorer manifests of the days and written reports; the
warehouse is never opened. A thread of its own looks at the pointer, loads a new champion beside
the old one, and swaps one reference. A question takes the reference once and is answered by that
model to its end.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mom_pipeline.catalogue import Catalogue
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
from mom_pipeline.serving.explorer.routes import explorer_router
from mom_pipeline.serving.limits import (
    DEFAULT_LIST,
    QUESTIONS,
    BadRequest,
    Group,
    ListLength,
    PathId,
    UserQuestion,
    UsersQuestion,
    body_question,
    check_address,
    first_problem,
)
from mom_pipeline.serving.monitoring import Measured, RequestMetrics
from mom_pipeline.serving.recommender import Choice, Recommender
from mom_pipeline.serving.registry import ModelRegistry, NoChampion, Promotion
from mom_pipeline.serving.responses import (
    HEADERS,
    documented,
    json_answer,
    recommender_in_use,
)

LOOK_EVERY_SECONDS = 0.25
# A champion that could not be loaded is tried again after so many looks: it may be restored.
_LOOKS_UNTIL_RETRY = 40
_NO_MODEL = "no model is promoted yet; run `mom-pipeline update`"
# Of these addresses, not of the program: it rises when an answer changes its form.
_INTERFACE = "2"
_ANY_QUESTION = {"anyOf": [kind.model_json_schema() for kind in QUESTIONS]}


class Champion:
    """The model in use now; a context manager that watches the registry while it is open."""

    def __init__(
        self,
        registry: ModelRegistry,
        *,
        exclude_seen: bool = True,
        catalogue: Catalogue | None = None,
        left_out: Collection[str] = (),
        on_change: Callable[[str], None] = lambda message: None,
    ) -> None:
        self._registry = registry
        self._rules: dict[str, Any] = {
            "exclude_seen": exclude_seen,
            "catalogue": catalogue,
            "left_out": left_out,
        }
        self._on_change = on_change
        self._current: Recommender | None = None
        self._failed_version: str | None = None
        self._looks_since_failure = 0
        self.problem: str | None = None  # why the promoted model is not the one in use
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="champion", daemon=True)

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def recommender(self) -> Recommender:
        """The model in use; NoChampion when there has been none yet."""
        current = self._current
        if current is None:
            raise NoChampion(self.problem or _NO_MODEL)
        return current

    def version(self) -> str | None:
        """Return the version in use; None before there is one."""
        current = self._current
        return None if current is None else current.version

    def history(self) -> list[Promotion]:
        """Every change of the champion, oldest first."""
        return self._registry.history()

    def look(self) -> None:
        """Load the champion if it is another one; what cannot be loaded changes nothing."""
        version = None
        try:
            version = self._registry.champion_version()
            if version is None or version == self.version():
                self.problem = None
                return
            if self.problem is not None and self._failed_version == version:
                self._looks_since_failure += 1
                if self._looks_since_failure < _LOOKS_UNTIL_RETRY:
                    return
            served = self._registry.load(version)
            self._current = Recommender(served, **self._rules)
        except Exception as error:
            # Whatever it is, the model before keeps answering, and the watch goes on.
            self._fail(version, error)
            return
        self.problem = None
        self._on_change(f"Model {version} is in use.")

    def _fail(self, version: str | None, error: Exception) -> None:
        kept = self.version()
        still = "nothing can be answered" if kept is None else f"{kept} stays in use"
        message = f"the promoted model {version or ''} cannot be used, {still}: {error}"
        if self.problem != message:
            self._on_change(message)
        self._failed_version, self._looks_since_failure, self.problem = version, 0, message

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_SECONDS):
            self.look()


class _IdConvertor(Convertor[str]):
    """An id in an address: any text, slashes and line ends too."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())
_router = APIRouter(generate_unique_id_function=lambda route: route.name)


def create_app(
    champion: Champion, *, artifacts_dir: Path | None = None, reports_dir: Path | None = None
) -> FastAPI:
    """The ASGI application over a champion that is being watched.

    artifacts_dir: of the days, for the drift of the components.  reports_dir: pages to show.
    """
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
    app.state.champion = champion
    app.state.artifacts_dir, app.state.reports_dir = artifacts_dir, reports_dir
    app.state.metrics = RequestMetrics()
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
    question = partial(
        _answer, recommender_in_use(request), user=user, n=n, choice=Choice(group=group)
    )
    return json_answer(await run_in_threadpool(question))


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
    asked, recommender = await body_question(request), recommender_in_use(request)
    if isinstance(asked, UsersQuestion):
        many = partial(_answers, recommender, asked.users, asked.n, asked.choice)
        return json_answer(await run_in_threadpool(many))
    user = asked.user if isinstance(asked, UserQuestion) else None
    items, choice = asked.items or (), asked.choice
    question = partial(_answer, recommender, user=user, n=asked.n, choice=choice, items=items)
    return json_answer(await run_in_threadpool(question))


def _answer(
    recommender: Recommender,
    *,
    user: str | None,
    n: int,
    choice: Choice,
    items: Sequence[str] = (),
) -> Recommendations:
    among = recommender.choose(choice)
    if user is None:
        return recommender.recommend_items(items, n, among=among)
    return recommender.recommend(user, n, events=items, among=among)


def _answers(
    recommender: Recommender, users: Sequence[str], n: int, choice: Choice
) -> ManyRecommendations:
    among = recommender.choose(choice)
    lists = tuple(recommender.recommend(user, n, among=among) for user in users)
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
        unavailable = Health(status="unavailable", model=None, problem=problem or _NO_MODEL)
        return json_answer(unavailable, 503)
    status = Health(status="degraded" if problem else "ok", model=version, problem=problem)
    return json_answer(status)


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
