"""Requests over HTTP, read within limits, and responses: JSON and pages with their headers."""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
)
from starlette.responses import Response

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.interactions import MAX_ID
from mom_pipeline.serving.answers import Error
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_LIST, MAX_WEIGHT
from mom_pipeline.serving.rules import LEAST_BOOST, MOST_BOOST

DEFAULT_LIST = 20
MAX_BODY_BYTES = 1_000_000
# What is read of a longer body, and left.
_MOST_READ = 32_000_000
_T = TypeVar("_T", bound=BaseModel)
# Users of one question: their lists are made one after the other.
MAX_USERS = 100
HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
# For pages: nothing from outside, no script or style inside of the page, no frame around it.
ONLY_OUR_FILES = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_REFUSALS = {
    400: "The body is not JSON.",
    404: "The user, the item, the group, or the type of event is not known.",
    413: f"The body is longer than {MAX_BODY_BYTES:,} bytes.",
    415: "The body is not declared as JSON.",
    422: "A value is outside of its limits.",
    503: "No model is promoted yet, or what was told could not be stored.",
}


_JSON = TypeAdapter[Any](Any)
_OF_BODIES = (400, 413, 415)


class BadRequest(MomError):
    """A request that is answered with a 4xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _from_digits(text: object) -> object:
    """Python also reads 1_0, +1 and other digits as numbers; an address does not."""
    if isinstance(text, str) and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"a whole number from 1 to {MAX_LIST} is expected")
    return text


def _no_text(value: object) -> object:
    """In JSON, 3.0 is a whole number; true and "3" are none."""
    if isinstance(value, bool | str):
        raise ValueError(f"a whole number from 1 to {MAX_LIST} is expected")
    return value


_Length = Annotated[int, Field(ge=1, le=MAX_LIST)]
_Id = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
_Ids = Annotated[list[_Id], Field(min_length=1, max_length=MAX_HISTORY)]
_Weight = Annotated[float, Field(gt=0, lt=MAX_WEIGHT, strict=True)]
_Weights = Annotated[dict[_Id, _Weight], Field(min_length=1, max_length=MAX_HISTORY)]
_HOW_MANY, _TAKEN = "How many items.", "What was taken: items, or how often by item."
ListLength = Annotated[_Length, BeforeValidator(_from_digits), Query(description=_HOW_MANY)]
_GROUP = "The list holds items of this group of items.csv."
_SEEN = "Whether the list may hold what the user had; by default as the settings."
_TRACK = "Keep the list as shown to the user; see POST /shown."
_DIVERSITY = "From 0 to below 1: how much an item loses that goes with those before it."
# Without control characters: it will stand in a log.
_ToldId = Annotated[str, Field(min_length=1, max_length=MAX_ID, pattern=r"^[^\x00-\x1f\x7f]*$")]
Group = Annotated[_Id | None, Query(description=_GROUP)]
Seen = Annotated[Literal["true", "false"] | None, Query(description=_SEEN)]
Track = Annotated[Literal["1"] | None, Query(description=_TRACK)]
SearchText = Annotated[str, Query(max_length=MAX_ID, description="A part of an id or a name.")]
PathId = Annotated[_Id, Path(description="An id, percent-encoded.")]
QueryId = Annotated[_Id, Query(description="An id.")]
GroupName = Annotated[_Id, Path(description="The name of a group of people, or its number.")]
OtherGroup = Annotated[str, Query(max_length=MAX_ID, description="Another group, by name.")]
AtLeast = Annotated[
    float, Query(ge=0, le=1, allow_inf_nan=False, description="Count who belongs so surely.")
]


class _Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(extra="forbid")


class _Question(_Body):
    """What all questions have in common."""

    n: Annotated[_Length, BeforeValidator(_no_text)] = Field(DEFAULT_LIST, description=_HOW_MANY)
    only: _Ids | None = Field(None, description="The list holds some of these items.")
    without: _Ids | None = Field(None, alias="not", description="It holds none of these items.")
    group: _Id | None = Field(None, description=_GROUP)
    seen: Annotated[bool, Field(strict=True)] | None = Field(None, description=_SEEN)
    track: Annotated[bool, Field(strict=True)] = Field(False, description=_TRACK)
    max_per_group: (
        Annotated[Annotated[int, Field(ge=0, le=MAX_LIST)], BeforeValidator(_no_text)] | None
    ) = Field(None, description="At most so many items of a group; 0: any number.")
    diversity: Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description=_DIVERSITY
    )


class ItemsQuestion(_Question):
    """The list of somebody new, known by items alone."""

    items: _Ids | _Weights = Field(description=_TAKEN)


class UserQuestion(_Question):
    """The list of a user, with what they took since the model was made."""

    user: _Id = Field(description="The user's id.")
    items: _Ids | _Weights | None = Field(None, description=f"{_TAKEN} Since the model was made.")


class UsersQuestion(_Question):
    """The lists of several users."""

    users: list[_Id] = Field(min_length=1, max_length=MAX_USERS, description="Ids of users.")


Question = ItemsQuestion | UserQuestion | UsersQuestion
QUESTIONS: tuple[type[Question], ...] = (ItemsQuestion, UserQuestion, UsersQuestion)


class EventTold(_Body):
    """Somebody took an item."""

    user: _ToldId = Field(description="Who.")
    item: _ToldId = Field(description="What: an item of the model, of items.csv or of PUT /items.")
    time: AwareDatetime | None = Field(None, description="When, with its zone; now by default.")
    type: _ToldId = Field("purchase", description="A type that the settings give a weight.")
    id: _ToldId | None = Field(None, description="It counts once; without one, each time.")


class ShownTold(_Body):
    """What somebody was shown, the first place first."""

    user: _ToldId = Field(description="Who.")
    items: Annotated[list[_ToldId], Field(min_length=1, max_length=MAX_LIST)] = Field(
        description="What they saw, in its order."
    )
    model: _ToldId | None = Field(None, description="The version that the answer named.")
    place: Annotated[_Length, BeforeValidator(_no_text)] = Field(1, description="Of the first.")


class ItemTold(_Body):
    """What holds for an item; what is left out stays as it is."""

    hidden: Annotated[bool, Field(strict=True)] | None = Field(None, description="In no list.")
    boost: (
        Annotated[float, Field(strict=True, ge=LEAST_BOOST, le=MOST_BOOST, allow_inf_nan=False)]
        | None
    ) = Field(None, description="By how much it is likelier to be taken; 1 for as it is.")


class EventsTold(RootModel[Annotated[list[EventTold], Field(min_length=1, max_length=10_000)]]):
    """Several events."""


class CheckedRoute(APIRoute):
    """Refuses what is not UTF-8, foreign parameters and any twice; a dependency adds 60 us."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, after the check of the address."""
        handler = super().get_route_handler()
        names = [field.alias for field in self.dependant.query_params]

        async def checked(request: Request) -> Response:
            if self.include_in_schema:
                _check_address(request, names)
            return await handler(request)

        return checked


def _check_address(request: Request, names: list[str]) -> None:
    if request.scope["query_string"]:
        given = [name for name, _ in request.query_params.multi_items()]
        if set(given) - set(names) or len(set(given)) < len(given):
            expected = f"{', '.join(names)}, once each" if names else "none"
            raise BadRequest(422, f"parameters may be {expected}; found {given[:5]!r}")
    try:
        unquote_to_bytes(request.scope["raw_path"]).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(422, "the address is not percent-encoded UTF-8") from error


async def value_of(request: Request) -> Any:
    """The JSON of a body, within its limits."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest(415, f"Content-Type must be application/json, found {kind[:80]!r}")
    body, n_bytes = bytearray(), 0
    async for chunk in request.stream():
        n_bytes += len(chunk)
        if n_bytes <= MAX_BODY_BYTES:
            body += chunk
        # Who is still sending would not read the refusal.
        elif n_bytes > _MOST_READ:
            break
    if n_bytes > MAX_BODY_BYTES:
        raise BadRequest(413, f"the body is longer than {MAX_BODY_BYTES:,} bytes")
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not JSON: {str(error)[:120]}") from error


def checked(value: Any, kind: type[_T]) -> _T:
    """A value as a message of a kind, or BadRequest with the first problem."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise BadRequest(422, first_problem(error.errors(include_url=False))) from error


def checked_question(value: Any) -> Question:
    """A question of the kind that its fields name."""
    given = value if isinstance(value, dict) else {}
    if "users" in given:
        return checked(value, UsersQuestion)
    if "user" in given:
        return checked(value, UserQuestion)
    return checked(value, ItemsQuestion)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def first_problem(errors: Any) -> str:
    """The first of pydantic's errors in one line."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("query", "path"))
    message = first["msg"].removeprefix("Value error, ")
    return f"{where or 'the body'}: {message}, found {first['input']!r:.40}"


def documented(
    model: Any, *refusals: int, bodies: Sequence[type[BaseModel]] = (), several: bool = False
) -> dict[str, Any]:
    """What a route says about itself. Answers are JSON when they leave it: none is made twice.

    bodies: one of which it takes, or `several` of the one.
    """
    every = sorted({422, *refusals, *(_OF_BODIES if bodies else ())})
    answers: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    answers |= {s: {"model": Error, "description": _REFUSALS[s]} for s in every}
    about: dict[str, Any] = {"response_model": None, "responses": answers}
    if bodies:
        kinds = [kind.model_json_schema() for kind in bodies]
        kinds += [{"type": "array", "items": kinds[0], "minItems": 1}] if several else []
        content = {"application/json": {"schema": {"anyOf": kinds}}}
        about["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return about


def json_answer(answer: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
    return Response(_JSON.dump_json(answer), status, HEADERS | {**headers}, "application/json")


def page(content: bytes, policy: str = ONLY_OUR_FILES, media_type: str = "text/html") -> Response:
    """A page, or a part of one, that may use only what its Content-Security-Policy allows."""
    headers = HEADERS | {"content-security-policy": policy}
    return Response(content, headers=headers, media_type=media_type)
