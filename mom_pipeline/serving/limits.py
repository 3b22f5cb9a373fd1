"""What a request may ask for, and how it is read."""

import json
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import Request

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.recommender import MAX_HISTORY, MAX_ID, MAX_LIST

DEFAULT_LIST = 20
MAX_BODY_BYTES = 1_000_000
_DIGITS = 9


class BadRequest(MomError):
    """A request that is answered with a 4xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def list_length(request: Request) -> int:
    """Return n of the address; no other parameter, and none twice, is accepted."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    if set(names) - {"n"} or len(names) > 1:
        raise BadRequest(422, f"the only parameter is n, once; found {names[:5]!r}")
    text = pairs[0][1] if pairs else str(DEFAULT_LIST)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise BadRequest(422, f"n must be a whole number from 1 to {MAX_LIST}, found {text[:40]!r}")
    return checked_length(int(text))


def no_parameters(request: Request) -> None:
    """Refuse parameters where there are none."""
    if request.url.query:
        raise BadRequest(422, "this address takes no parameters")


def checked_length(n: object) -> int:
    """Return n of a body or an address, within its limits."""
    # 3.0 is a whole number of JSON; true is none, although Python counts with it.
    whole = int(n) if isinstance(n, float) and n.is_integer() else n
    if not isinstance(whole, int) or isinstance(whole, bool) or not 1 <= whole <= MAX_LIST:
        raise BadRequest(422, f"n must be a whole number from 1 to {MAX_LIST}")
    return whole


def path_id(request: Request) -> str:
    """Return the id of the address; bytes that are no UTF-8 are refused, not replaced."""
    try:
        unquote_to_bytes(request.scope["raw_path"]).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(422, "the address is not percent-encoded UTF-8") from error
    return _checked_id(request.path_params["id"])


async def body_items(request: Request) -> tuple[list[str], int]:
    """Return items and n of a body, within their limits."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest(415, f"Content-Type must be application/json, found {kind[:80]!r}")
    value = _json(await _bounded_body(request))
    if not isinstance(value, dict) or not {"items"} <= value.keys() <= {"items", "n"}:
        raise BadRequest(422, 'expected an object {"items": [...], "n": 20}')
    items = value["items"]
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_HISTORY:
        found = f"{len(items):,}" if isinstance(items, list) else type(items).__name__
        raise BadRequest(422, f"items must be a list of 1 to {MAX_HISTORY:,} ids, found {found}")
    return [_checked_id(item) for item in items], checked_length(value.get("n", DEFAULT_LIST))


def _checked_id(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_ID:
        raise BadRequest(422, f"an id is a text of 1 to {MAX_ID:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(422, "an id holds half of a surrogate pair, which is no text") from error
    return value


async def _bounded_body(request: Request) -> bytes:
    """Read the body; stop as soon as it is too long, whatever its header promised."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise BadRequest(413, f"the body is longer than {MAX_BODY_BYTES:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not JSON: {str(error)[:120]}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
