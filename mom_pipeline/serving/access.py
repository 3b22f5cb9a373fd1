"""The tokens of a service that other machines can reach, by name, and which pages may ask it.

A program sends `Authorization: Bearer TOKEN`. A person opens `/?token=TOKEN` once and gets a cookie
of this run, which no script can read, no other site can use, and which does not hold the token.
Of the tokens in `shop/tokens.json` only hashes are kept; one that is withdrawn holds no longer, nor
do its cookies.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection

from fastapi.security import HTTPBearer
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mom_pipeline.core.errors import MomError
from mom_pipeline.core.files import locked, write_text
from mom_pipeline.serving.messages import HEADERS
from mom_pipeline.settings import Settings

VARIABLE = "MOM_SERVE_TOKEN"
SHORTEST = 16
COOKIE = "mom_session"
# What needs no token: whether questions are answered.
OPEN = ("/health", "/ready")
METRICS = "/metrics"
_HOW = (
    "This service shows what people took, and wants a token: open /?token=TOKEN in a browser, or "
    "send the header `Authorization: Bearer TOKEN`.\n"
)


class TokenNameUnknown(MomError):
    """There is no token of that name, or there is one already."""


class TokenMissing(MomError):
    """A service for other machines without a token."""


class Tokens:
    """The tokens of a data folder: name -> sha256; and one that has no name."""

    def __init__(self, settings: Settings, own: str = "") -> None:
        self._path, self._own = settings.shop_dir / "tokens.json", own
        self._read: tuple[int, dict[str, str]] = 0, {}

    def require(self, host: str) -> None:
        """Raise TokenMissing where there is no token, or one that could be guessed."""
        if len(self._own) < SHORTEST and (self._own or not self.hashes()):
            given = f"one of {len(self._own)} characters" if self._own else "none"
            raise TokenMissing(
                f"--host {host} lets other machines ask what people took, so {VARIABLE} must hold "
                f"a secret of {SHORTEST} characters or more, found {given}; set it, or make one "
                "with `mom-pipeline token NAME`, or leave --host and --proxy out"
            )

    def every_hash(self) -> set[str]:
        """Of all that hold now."""
        return {*self.hashes().values(), *([_hash(self._own)] if self._own else [])}

    def hashes(self) -> dict[str, str]:
        """By name, as the file has them now."""
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read[0]:
                self._read = changed, json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return self._read[1]

    def make(self, name: str) -> str:
        """Return a new token, which is shown this once."""
        token = secrets.token_urlsafe(32)
        with locked(self._path.parent):
            if name in self.hashes():
                raise TokenNameUnknown(f"there is a token {name!r} already; withdraw it first")
            self._write(self.hashes() | {name: _hash(token)})
        return token

    def withdraw(self, name: str) -> None:
        """Let a token hold no longer."""
        with locked(self._path.parent):
            if name not in self.hashes():
                known = ", ".join(self.hashes()) or "none"
                raise TokenNameUnknown(f"there is no token {name!r}; known are {known}")
            self._write({other: h for other, h in self.hashes().items() if other != name})

    def _write(self, hashes: dict[str, str]) -> None:
        write_text(self._path, json.dumps(hashes, indent=1) + "\n")


class TokenGuard:
    """Lets only requests with a token, or for paths open to all, reach an application."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        origins: Collection[str] = (),
        open_to_all: Collection[str] = OPEN,
    ) -> None:
        self._app, self._tokens, self._key = app, tokens, secrets.token_bytes(32)
        self._origins, self._open = frozenset(origins), frozenset(open_to_all)
        self._bearer = HTTPBearer(auto_error=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app if scope["type"] == "lifespan" else await self._answer(Request(scope))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        origin = request.headers.get("origin")
        if origin and origin not in self._origins | {
            f"{request.url.scheme}://{request.url.netloc}"
        }:
            said = (
                f"Refused: pages of {origin!r:.80} may not ask this service; see --cors-origin.\n"
            )
            return PlainTextResponse(said, 403, HEADERS)
        if request.url.path in self._open:
            return self._app
        hashes = self._tokens.every_hash()
        if "token" in request.query_params:
            # A token that is given has to be right, whatever else comes with it.
            given = _hash(request.query_params["token"])
            return self._welcome(request, given) if _among(given, hashes) else _refusal()
        bearer = await self._bearer(request)
        # Headers are latin-1 to Starlette; a token may be any text.
        sent = hashlib.sha256(bearer.credentials.encode("latin-1")).hexdigest() if bearer else ""
        cookie = request.cookies.get(COOKIE, "")
        allowed = _among(sent, hashes) or _among(cookie, {self._session(h) for h in hashes})
        return self._app if allowed else _refusal()

    def _session(self, token_hash: str) -> str:
        """The cookie of a token in this run."""
        return hmac.new(self._key, token_hash.encode(), hashlib.sha256).hexdigest()

    def _welcome(self, request: Request, token_hash: str) -> Response:
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
        secure = request.url.scheme == "https"
        cookie = self._session(token_hash)
        welcome.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
        return welcome


def _refusal() -> Response:
    return PlainTextResponse(_HOW, 401, HEADERS | {"www-authenticate": "Bearer"})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _among(given: str, wanted: Collection[str]) -> bool:
    """Compare in constant time."""
    return sum(hmac.compare_digest(given.encode(), one.encode()) for one in wanted) > 0
