"""The service in OpenAPI, as it checks its requests."""

from functools import cache
from typing import Any

from mom_pipeline.serving.limits import DEFAULT_LIST, MAX_BODY_BYTES
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_ID, MAX_LIST

# Of these addresses, not of the program: it rises when an answer changes its form.
_INTERFACE = "1"
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID}
_N = {"type": "integer", "minimum": 1, "maximum": MAX_LIST, "default": DEFAULT_LIST}
_TEXTS = {"type": "array", "items": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_KINDS = {"enum": ["item", "component", "popularity"]}
_SCHEMAS = {
    "Error": _object(error=_TEXT),
    "Recommendations": _object(
        user=_or_null(_TEXT),
        model=_TEXT,
        fallback={"type": "boolean"},
        note=_TEXT,
        items=_list(
            _object(
                item=_TEXT,
                score=_NUMBER,
                reason=_object(kind=_KINDS, name=_TEXT, share=_NUMBER, examples=_TEXTS),
            )
        ),
        unknown_items=_TEXTS,
    ),
    "SimilarItems": _object(
        item=_TEXT, model=_TEXT, items=_list(_object(item=_TEXT, score=_NUMBER))
    ),
    "Health": _object(
        status={"enum": ["ok", "degraded", "unavailable"]},
        model=_or_null(_TEXT),
        problem=_or_null(_TEXT),
    ),
    "Model": _object(
        version=_TEXT,
        day=_TEXT,
        code_version=_TEXT,
        data=_TEXT,
        settings={"type": "object"},
        parents={"type": "object"},
        metrics={"type": "object"},
        users={"type": "integer"},
        items={"type": "integer"},
    ),
}
_WHAT_WENT_WRONG = {
    400: "The body is not JSON.",
    404: "The model does not know the item.",
    413: f"The body is longer than {MAX_BODY_BYTES:,} bytes.",
    415: "The body is not declared as JSON.",
    422: "A value is outside of its limits.",
    503: "No model is promoted yet.",
}


def _answer(description: str, schema: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": description, "content": {"application/json": {"schema": reference}}}


def _operation(
    name: str,
    summary: str,
    answer: dict[int, tuple[str, str]],
    refusals: tuple[int, ...] = (),
    parameters: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    answers = {str(status): _answer(*about) for status, about in answer.items()}
    answers |= {str(status): _answer(_WHAT_WENT_WRONG[status], "Error") for status in refusals}
    value = {"operationId": name, "summary": summary, "responses": answers}
    return value | ({"parameters": list(parameters)} if parameters else {})


def _parameter(name: str, place: str, description: str, schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "description": description,
        "required": place == "path",
        "schema": schema,
    }


@cache
def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    n = _parameter("n", "query", "How many items.", _N)
    user = _parameter("user", "path", "Id of a user, percent-encoded.", _ID)
    item = _parameter("item", "path", "Id of an item, percent-encoded.", _ID)
    items = {"type": "array", "items": _ID, "minItems": 1, "maxItems": MAX_HISTORY}
    body = _object(items=items, n=_N) | {"required": ["items"]}
    by_items = _operation(
        "recommendItems",
        "The best items of somebody new, who took the given ones.",
        {200: ("A list, best first.", "Recommendations")},
        (400, 413, 415, 422, 503),
    )
    by_items["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": body}},
    }
    recommend = _operation(
        "recommend",
        "The best items of a user; popular ones, marked as fallback, without a history.",
        {200: ("A list, best first.", "Recommendations")},
        (422, 503),
        (user, n),
    )
    similar = _operation(
        "similar",
        "Items that go with one, compared with how popular they are.",
        {200: ("A list, best first.", "SimilarItems")},
        (404, 422, 503),
        (item, n),
    )
    health = _operation(
        "health",
        "Whether a model is in use, and whether it is the promoted one.",
        {200: ("A model is in use.", "Health"), 503: ("No model is in use.", "Health")},
        (422,),
    )
    about = {200: ("What the model in use was made of.", "Model")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "mom-pipeline", "version": _INTERFACE},
        "paths": {
            "/recommend/{user}": {"get": recommend},
            "/recommend": {"post": by_items},
            "/similar/{item}": {"get": similar},
            "/health": {"get": health},
            "/model": {"get": _operation("model", "The model in use.", about, (422, 503))},
        },
        "components": {"schemas": _SCHEMAS},
    }
