"""The token of a service that other machines can reach.

A program sends `Authorization: Bearer TOKEN`. A person opens `/?token=TOKEN` once: the browser gets
a cookie that no script can read and no other site can use, which holds for this run of the service
and does not contain the token.
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mom_pipeline.core.errors import MomError
from mom_pipeline.serving.responses import HEADERS

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
        self._token = token.encode()
        self._session = secrets.token_urlsafe(32).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given and _equal(given[0].encode(), self._token):
            await self._welcome(scope, query)(scope, receive, send)
        elif not given and (self._bears_token(headers) or self._has_session(headers)):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse(_HOW, 401, HEADERS | {"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)

    def _bears_token(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        return kind.lower() == b"bearer" and _equal(value.strip(), self._token)

    def _has_session(self, headers: dict[bytes, bytes]) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        return COOKIE in cookies and _equal(cookies[COOKIE].value.encode(), self._session)

    def _welcome(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Give the cookie, and leave the address with the token.

        By a page, not by a redirect: after a link on another site, a browser would follow a
        redirect without the cookie.
        """
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = scope["raw_path"].decode("latin-1")
        # One slash: `//host` would be an address elsewhere.
        target = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
        headers = HEADERS | {"refresh": f"0; url={target}"}
        welcome = PlainTextResponse("Signed in; the page opens.\n", headers=headers)
        welcome.set_cookie(
            COOKIE, self._session.decode(), httponly=True, samesite="strict", path="/"
        )
        return welcome


def _equal(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
