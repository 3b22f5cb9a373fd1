"""Responses of the service: their headers, JSON, pages, and what the OpenAPI document says."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from mom_pipeline.serving.answers import Answer, Error
from mom_pipeline.serving.limits import MAX_BODY_BYTES
from mom_pipeline.serving.recommender import Recommender

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
_WHAT_WENT_WRONG = {
    400: "The body is not JSON.",
    404: "The model does not know the user, the item, or the group.",
    413: f"The body is longer than {MAX_BODY_BYTES:,} bytes.",
    415: "The body is not declared as JSON.",
    422: "A value is outside of its limits.",
    503: "No model is promoted yet.",
}


def documented(model: Any, *refusals: int) -> dict[str, Any]:
    """What a route says about itself. Answers are JSON when they leave it: none is made twice."""
    answers: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    answers |= {s: {"model": Error, "description": _WHAT_WENT_WRONG[s]} for s in refusals}
    return {"response_model": None, "responses": answers}


def json_answer(
    answer: Answer, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(answer.model_dump_json(), status, HEADERS | (headers or {}), "application/json")


def page(content: str | bytes, policy: str = ONLY_OUR_FILES) -> Response:
    """An HTML page that may use only what its Content-Security-Policy allows."""
    return Response(
        content, headers=HEADERS | {"content-security-policy": policy}, media_type="text/html"
    )


def recommender_in_use(request: Request) -> Recommender:
    """The model that answers; NoChampion when there has been none yet."""
    recommender: Recommender = request.app.state.champion.recommender()
    return recommender
