"""The token of a service that other machines can reach.

A program sends `Authorization: Bearer TOKEN`. A person opens `/?token=TOKEN` once and gets a cookie
of this run, which no script can read, no other site can use, and which does not hold the token.
"""

import hmac
import secrets

from fastapi.security import HTTPBearer
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.messages import HEADERS

VARIABLE = "MOM_SERVE_TOKEN"
SHORTEST = 16
COOKIE = "mom_session"
_HOW = (
    "This service shows what people took, and wants a token: open /?token=TOKEN in a browser, or "
    "send the header `Authorization: Bearer TOKEN`.\n"
)


class TokenMissing(MomError):
    """A service for other machines without a token."""


def token_for(host: str, token: str | None) -> str:
    """The token; TokenMissing when there is none, or one that could be guessed."""
    if not token or len(token) < SHORTEST:
        given = "none" if not token else f"one of {len(token)} characters"
        raise TokenMissing(
            f"--host {host} lets other machines ask what people took, so {VARIABLE} must hold a "
            f"secret of {SHORTEST} characters or more, found {given}; set it, or leave --host out"
        )
    return token


class TokenGuard:
    """An ASGI application that lets only requests with the token reach another one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token, self._session = token, secrets.token_urlsafe(32)
        self._bearer = HTTPBearer(auto_error=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app if scope["type"] == "lifespan" else await self._answer(Request(scope))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        if "token" in request.query_params:
            # A token that is given has to be right, whatever else comes with it.
            given = request.query_params["token"].encode()
            return self._welcome(request) if _equal(given, self._token) else _refusal()
        bearer = await self._bearer(request)
        # Headers are latin-1 to Starlette; a token may be any text.
        sent = bearer.credentials.encode("latin-1") if bearer else b""
        cookie = request.cookies.get(COOKIE, "").encode()
        allowed = _equal(sent, self._token) or _equal(cookie, self._session)
        return self._app if allowed else _refusal()

    def _welcome(self, request: Request) -> Response:
        """Give the cookie, and leave the address with the token.

        By a page, not by a redirect: after a link on another site, a browser would follow a
        redirect without the cookie.
        """
        rest = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
        # One slash: `//host` would be an address elsewhere.
        target = "/" + request.scope["raw_path"].decode("latin-1").lstrip("/")
        target += f"?{QueryParams(rest)}" if rest else ""
        headers = HEADERS | {"refresh": f"0; url={target}"}
        welcome = PlainTextResponse("Signed in; the page opens.\n", headers=headers)
        welcome.set_cookie(COOKIE, self._session, httponly=True, samesite="strict", path="/")
        return welcome


def _refusal() -> Response:
    return PlainTextResponse(_HOW, 401, HEADERS | {"www-authenticate": "Bearer"})


def _equal(given: bytes, wanted: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given, wanted.encode())
