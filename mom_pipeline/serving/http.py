"""The HTTP service: questions about the model in use, what the shop tells, the explorer, reports.

It reads the registry and written reports, and writes what it is told; the warehouse is never
opened.
"""

import asyncio
import re
import time
import uuid
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Match

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving import answers
from mom_pipeline.serving.champion import NO_MODEL, Champion
from mom_pipeline.serving.events import (
    EventsCounted,
    EventsNotStored,
    EventWriter,
    Job,
    ShopEvent,
    ShownList,
    event_weights,
)
from mom_pipeline.serving.messages import (
    DEFAULT_LIST,
    HEADERS,
    ONLY_OUR_FILES,
    QUESTIONS,
    AtLeast,
    BadRequest,
    CheckedRoute,
    EventsTold,
    EventTold,
    Group,
    GroupName,
    ItemTold,
    ListLength,
    OtherGroup,
    PathId,
    QueryId,
    Question,
    SearchText,
    Seen,
    ShownTold,
    Track,
    UserQuestion,
    UsersQuestion,
    checked,
    checked_question,
    documented,
    first_problem,
    json_answer,
    page,
    value_of,
)
from mom_pipeline.serving.monitoring import Measured, ServiceMetrics
from mom_pipeline.serving.rates import rates, trial_difference
from mom_pipeline.serving.recommender import Recommender
from mom_pipeline.serving.registry import NoChampion
from mom_pipeline.serving.rules import say_of_item

# Of these addresses, not of the program: it rises when an answer changes its form.
_INTERFACE = "4"
# Status and headers of a refusal. What is left of a bad body is not read, so its connection ends.
_REFUSED: dict[type[MomError], tuple[int, dict[str, str]]] = {
    BadRequest: (400, {"connection": "close"}),
    NoChampion: (503, {"retry-after": "5"}),
    EventsNotStored: (503, {"retry-after": "5"}),
    answers.UnknownId: (404, {}),
    answers.InvalidQuestion: (422, {}),
}
_SHOWN_CHANGES = 20
# A clock of a shop may be ahead by so many seconds; such an event is of now.
_AHEAD_SECONDS = 60
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
_get, _post = _router.get, _router.post


def create_app(champion: Champion) -> FastAPI:
    """The ASGI application over a champion that is being watched.

    Its `state.writer` is to be open while it is told something.
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
    app.state.champion, app.state.metrics = champion, ServiceMetrics(champion)
    app.state.writer = EventWriter(champion.events, champion.say)
    pictures = "img-src https: " if champion.shows_pictures else "img-src "
    app.state.policy = ONLY_OUR_FILES.replace("img-src ", pictures)
    app.add_middleware(Measured, metrics=app.state.metrics)
    return app


def _champion(request: Request) -> Champion:
    champion: Champion = request.app.state.champion
    return champion


def _in_use(request: Request, user: str | None = None) -> Recommender:
    """The model that answers a user; NoChampion when there has been none yet."""
    return _champion(request).recommender(user)


# Questions. FastAPI runs a function that is not `async` in a thread of its pool.


@_get("/recommend/{user:id}", **documented(answers.Recommendations, 404, 503))
def recommend(
    request: Request,
    user: PathId,
    n: ListLength = DEFAULT_LIST,
    group: Group = None,
    seen: Seen = None,
    track: Track = None,
) -> Response:
    """The best items of a user; popular ones, marked as fallback, without a history."""
    # A link on another page shows nothing to a customer.
    kept = bool(track) and request.headers.get("sec-fetch-mode") != "navigate"
    may = None if seen is None else seen == "true"
    asked = {"user": user, "n": n, "group": group, "seen": may, "track": kept}
    return json_answer(_lists(request, UserQuestion.model_validate(asked)))


_Lists = answers.Recommendations | answers.ManyRecommendations


@_post("/recommend", **documented(_Lists, 404, 503, bodies=QUESTIONS))
async def recommend_items(request: Request) -> Response:
    """The best items of somebody new, who took the given ones; of a user, with what they took
    since the model was made; or of several users.
    """
    question = checked_question(await value_of(request))
    return json_answer(await run_in_threadpool(_lists, request, question))


def _lists(request: Request, asked: Question) -> _Lists:
    hidden = None if asked.seen is None else not asked.seen
    order = {"max_per_group": asked.max_per_group, "diversity": asked.diversity}

    def listed(user: str | None) -> answers.Recommendations:
        model = _in_use(request, user)
        among = model.choose(asked.only, asked.without or (), asked.group, **order)
        how: dict[str, Any] = {"n": asked.n, "exclude_seen": hidden, "among": among}
        items = getattr(asked, "items", None) or ()
        if user is None:
            return model.recommend_items(items, **how)
        answer = model.recommend(user, events=items, **how)
        if asked.track:
            _keep_shown(request, answer)
        return answer

    if isinstance(asked, UsersQuestion):
        lists = tuple(map(listed, asked.users))
        return answers.ManyRecommendations(model=_in_use(request).version, lists=lists)
    return listed(asked.user if isinstance(asked, UserQuestion) else None)


@_get("/similar/{item:id}", **documented(answers.SimilarItems, 404, 503))
def similar(request: Request, item: PathId, n: ListLength = DEFAULT_LIST) -> Response:
    """Items that go with one, compared with how popular they are."""
    return json_answer(_in_use(request).similar(item, n))


@_get("/search", **documented(answers.Matches, 503))
def search(request: Request, q: SearchText = "", n: ListLength = DEFAULT_LIST) -> Response:
    """Users and items whose id, or name, holds a text; without one, some people to look at."""
    return json_answer(_in_use(request).explorer.search(q, n))


@_get("/history", **documented(answers.History, 404, 503))
def history(request: Request, user: QueryId, n: ListLength = DEFAULT_LIST) -> Response:
    """What a user took, the newest first."""
    return json_answer(_in_use(request).explorer.history(user, n))


@_get("/explain", **documented(answers.ExplainedScore, 404, 503))
def explain(request: Request, user: QueryId, item: QueryId) -> Response:
    """A user's score of an item by part, by component and by item of the history."""
    return json_answer(_in_use(request, user).explain(user, item))


@_get("/items/{item:id}", **documented(answers.ItemUse, 404, 503))
def item(request: Request, item: PathId) -> Response:
    """Who takes an item, by group and by day."""
    return json_answer(_in_use(request).explorer.item(item))


# What the shop tells.


async def _stored(request: Request, job: Job) -> Response:
    """Answer once a job is on the disk."""
    return json_answer(await asyncio.wrap_future(request.app.state.writer.submit(job)))


def _keep_shown(request: Request, answer: answers.Recommendations) -> None:
    """Keep a list as shown; nobody waits until that is on the disk."""
    items = [line.item for line in answer.items]
    request.app.state.writer.submit(_shown(request, str(answer.user), items, answer.model))


def _shown(request: Request, user: str, items: list[str], version: str, place: int = 1) -> Job:
    champion = _champion(request)
    trial = champion.trial.version if champion.trial else ""
    shown = ShownList(user, items, version, trial, place)
    return lambda connection: champion.events.add_shown(connection, shown)


@_post("/events", **documented(EventsCounted, 404, 503, bodies=[EventTold], several=True))
async def events(request: Request) -> Response:
    """What people took, one event or a list: on the disk when this answers, each id once, and in
    the next answers; all of them, or none.
    """
    value = await value_of(request)
    several = isinstance(value, list)
    told = checked(value, EventsTold).root if several else [checked(value, EventTold)]
    champion = _champion(request)
    weights, now = event_weights(champion.settings), time.time()
    places = [f"{at}." if several else "" for at in range(len(told))]
    taken = [_event(champion, weights, now, *one) for one in zip(places, told, strict=True)]
    return await _stored(request, lambda connection: champion.events.add(connection, taken))


def _event(
    champion: Champion, weights: dict[str, float], now: float, at: str, told: EventTold
) -> ShopEvent:
    """An event that can be counted; else the sentence why not."""
    seconds = now if told.time is None else told.time.timestamp()
    if not 0 <= seconds <= now + _AHEAD_SECONDS:
        what = "in the future" if seconds > 0 else "before 1970"
        now_is = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        raise BadRequest(422, f"{at}time: {told.time} is {what}; it is {now_is}")
    if told.type not in weights:
        known = ", ".join(weights)
        raise answers.UnknownEventType(
            f"{at}type: {answers.shown(told.type)} is no type of event; known are {known}, by "
            "logs.event_weights"
        )
    if not champion.knows(told.item):
        raise answers.UnknownItem(
            f"{at}item: {answers.shown(told.item)} is neither in the model nor in items.csv; add "
            "it there, or say `PUT /items/ID {}`"
        )
    own = told.id or uuid.uuid4().hex
    return ShopEvent(told.user, told.item, min(seconds, now), told.type, own)


@_post("/shown", **documented(EventsCounted, 503, bodies=[ShownTold]))
async def shown(request: Request) -> Response:
    """What somebody was shown, so that what they take of it can be counted."""
    told = checked(await value_of(request), ShownTold)
    version = told.model or _in_use(request, told.user).version
    return await _stored(request, _shown(request, told.user, told.items, version, told.place))


@_get("/shown", **documented(answers.ShownRates, 503))
def shown_rates(request: Request) -> Response:
    """How often people took what they were shown, by day, version and place; and the trial."""
    store, trial, state = _champion(request).events, _champion(request).trial, None
    if trial is not None:
        state = answers.TrialState(**vars(trial), result=trial_difference(store, trial))
    return json_answer(answers.ShownRates(rates=tuple(rates(store)), trial=state))


@_router.put("/items/{item:id}", **documented(answers.ShopItemSaid, 503, bodies=[ItemTold]))
async def say_item(request: Request, item: PathId) -> Response:
    """Hide an item or boost it, in every list from now on; what is left out stays as it is."""
    said = checked(await value_of(request), ItemTold)
    champion = _champion(request)
    values = said.model_dump(exclude_none=True)
    now = await run_in_threadpool(say_of_item, champion.settings, item, values)
    await run_in_threadpool(champion.look)
    return json_answer(answers.ShopItemSaid(item=item, **vars(now)))


@_get("/groups", **documented(answers.Groups, 503))
def groups(request: Request) -> Response:
    """Groups of people: what sets them apart, how large they are, and their share by day."""
    return json_answer(_in_use(request).groups.all)


@_get("/groups/{name:id}", **documented(answers.GroupPage, 404, 503))
def group(
    request: Request, name: GroupName, against: OtherGroup = "", at_least: AtLeast = 0.5
) -> Response:
    """One group: its days, what its people take next, and what sets it apart from another one."""
    return json_answer(_in_use(request).groups.page(name, against=against, at_least=at_least))


@_get("/promotions", **documented(answers.ModelChanges))
def promotions(request: Request) -> Response:
    """What the gate, or a person, put in use and why; the newest first."""
    entries = _champion(request).registry.history()[-_SHOWN_CHANGES:]
    return json_answer(answers.ModelChanges(changes=tuple(reversed(entries))))


@_get("/evaluations", **documented(answers.Evaluations))
def evaluations(request: Request) -> Response:
    """How good the lists were by day, beside lists of popular items."""
    evaluated = _champion(request).registry.evaluated()
    return json_answer(answers.Evaluations(days=tuple(evaluated)))


_HEALTH = documented(answers.Health, 422)
_HEALTH["responses"][503] = {"model": answers.Health, "description": "No model is in use."}


@_get("/ready", name="ready", **_HEALTH)
@_get("/health", **_HEALTH)
async def health(request: Request) -> Response:
    """Whether a model is in use, so that questions are answered, and is the promoted one."""
    version, problem = _champion(request).version(), _champion(request).problem
    if version is None:
        said = answers.Health(status="unavailable", model=None, problem=problem or NO_MODEL)
        return json_answer(said, 503)
    said = answers.Health(status="degraded" if problem else "ok", model=version, problem=problem)
    return json_answer(said)


@_get("/model", **documented(answers.ModelInUse, 503))
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
    text = await run_in_threadpool(request.app.state.metrics.text)
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
    folder = _champion(request).settings.reports_dir
    if not _REPORT.fullmatch(name):
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
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the router names the methods of one route alone
        found = (r for r in _router.routes if r.matches(request.scope)[0] is not Match.NONE)
        methods = {method for route in found for method in getattr(route, "methods", ())}
        headers["allow"] = ", ".join(sorted(methods))
    said = answers.Error(error=f"{error.detail}; /docs lists what there is")
    return json_answer(said, error.status_code, headers)
