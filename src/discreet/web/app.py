"""The application: routes, what holds for all of them, and errors as words that quote nothing.

    create_app(Hosting(campaigns=[Hosted(load)]))    an ASGI application

A new page is a router in a file of its own, included here; its routes take a dependency of `access`.

The guard
---------
What holds for every request, before any route sees it, and for every response, also of an error.

Guarantee: a Host that we are not, a request in the clear where browsers use TLS, headers that are malformed, a request
that another site's page sent, and a body that is too long are refused unread. Every response forbids scripts and styles
but our own files, being framed, sniffed, kept or referred to. The log has a line a request with method, route, status
and milliseconds: the route as it was declared, never the address that was asked for. An error that nobody expected is
logged by its type and place, without its message, which may quote data.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet._version import __version__
from discreet.errors import BadInput, DiscreetError, NotNow, PoolChanged, StoreUnavailable
from discreet.web import interface, owner, owner_interface, pages
from discreet.web.access import AccessRefused, Attempts
from discreet.web.hosting import Hosting
from discreet.web.pages import STATIC, error_page
from discreet.web.queue import NoSuchQuestion

ERROR = "discreet.error/1"
API = "/api/"


def create_app(hosting: Hosting) -> FastAPI:
    """The application that serves ``hosting``."""
    app = FastAPI(
        title="discreet",
        version=__version__,
        summary="Labelling and the budget of a campaign, for programs.",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # served to those who have a token: interface.py
        redirect_slashes=False,
    )
    app.state.hosting, app.state.attempts = hosting, Attempts()
    if not hosting.anonymous:
        for campaign in hosting.campaigns:
            campaign.store.users.end_loopback()
    for room in (pages, owner, interface, owner_interface):
        app.include_router(room.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(DiscreetError, _ours)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_middleware(Guard, hosting=hosting)
    return app


def _invalid(request: Request, error: Any) -> Response:
    """Where a request does not fit, and what is expected there; never what it said."""
    places = {
        ".".join(part for part in problem["loc"] if part in _OURS) + f" ({problem['type']})"
        for problem in error.errors()
    }
    return _said(request, 422, f"the request does not fit at {', '.join(sorted(places)[:5])}")


_OURS = ("body", "path", "query", "value", "question")
"""Places that we declared; a key that somebody made up is theirs."""


def _http(request: Request, error: Any) -> Response:
    """Of the framework: no such address, no such method; or of `access`: nobody, not for them, or too often."""
    words = "the body is too long" if error.status_code == 413 else "there is nothing here, or not in this way"
    if isinstance(error, AccessRefused):
        words = error.detail
        if error.status_code == 401 and not request.url.path.startswith(API):
            if request.headers.get("hx-request") == "true":
                return Response(status_code=401, headers={"HX-Redirect": "/login"})
            return RedirectResponse("/login", status_code=303)
    response = _said(request, error.status_code, words)
    response.headers.update(error.headers or {})
    return response


def _gone(request: Request, error: Any) -> Response:
    """Whoever asked hung up, or was too slow. Nobody reads this; the log has its status, as other servers write it."""
    return Response(status_code=499)


def _ours(request: Request, error: Any) -> Response:
    """Refusals of a campaign. Their words hold parameters, never records; numbers in them may be the owner's."""
    status, words = next((status, words) for kind, status, words in _REFUSALS if isinstance(error, kind))
    return _said(request, status, str(error) if getattr(request.state, "role", "") == "owner" else words)


_REFUSALS: tuple[tuple[type[DiscreetError], int, str], ...] = (
    (StoreUnavailable, 503, "the store is busy; try again in a moment"),
    (NoSuchQuestion, 404, "there is no such question for you"),
    (NotNow, 409, "this cannot be done now"),
    (PoolChanged, 409, "the record of this question was changed since it was enrolled; tell the owner"),
    (BadInput, 400, "this cannot be taken as it stands"),
    (DiscreetError, 500, "this cannot be taken as it stands"),
)
"""The status of a refusal, and what anybody may hear of it."""


def _said(request: Request, status: int, message: str) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"format": ERROR, "error": message}, status_code=status)
    return error_page(status, message)


# -- what holds for every request and response


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
TLS_ALONE = {"strict-transport-security": "max-age=31536000"}
"""Where browsers use TLS, they go on to, for a year."""
STATIC_ROUTE = "/static/"
SAFE = ("GET", "HEAD", "OPTIONS")
_DIGITS = 18
"""Of a length: longer ones are not made a number of."""
log = logging.getLogger("discreet.web")


class TooLong(HTTPException):
    """A body that is longer than it said, or than we take."""

    def __init__(self) -> None:
        super().__init__(413)


class Guard:
    """Wraps an application. One for each: it is the outermost part, so that nothing passes beside it."""

    def __init__(self, app: ASGIApp, hosting: Hosting) -> None:
        self._app, self._hosting = app, hosting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websockets
        secure = self._hosting.secure and scope.get("scheme") == "https"
        began, answer = time.perf_counter(), _Answer(send, scope, secure=secure)
        try:
            refused = self._refusal(scope)
            if refused is not None:
                await answer.refuse(*refused)
            else:
                await self._app(scope, _Counted(receive, self._hosting.body_bytes), answer)
        except Exception as error:  # noqa: BLE001 - whatever it says may quote a record, so nobody else may log it
            log.error("unexpected %s at %s", type(error).__name__, _place(error))
            await answer.refuse(500, "something went wrong here; the owner's log says where")
        took = 1000 * (time.perf_counter() - began)
        method = scope["method"] if scope["method"] in (*SAFE, "POST", "PUT", "PATCH", "DELETE") else "?"
        log.info("%s %s %s %.1f ms", method, route_of(scope), answer.status, took)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = headers.get(b"host", b"").decode("latin-1")
        if host_name(host) not in self._hosting.names:
            return 400, "this server has another name; see discreet serve --public-name"
        if not scope["query_string"].isascii():
            return 400, "the address has signs that are not escaped"
        if self._hosting.secure and scope.get("scheme") != "https":  # as the proxy says, whose word alone is taken
            return 400, "this server is for TLS alone; use https, and let the proxy set X-Forwarded-Proto"
        if scope["method"] not in SAFE:
            try:
                from_here = _from_here(headers, host)
            except ValueError:
                return 400, "the Origin header is no origin"
            if not from_here:
                return 403, "the request comes from another site's page"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return 400, "the Content-Length header is no length"
        if len(length) > _DIGITS or int(length) > self._hosting.body_bytes:
            return 413, "the body is too long"
        return None


class _Answer:
    """`send`, with our headers on whatever leaves."""

    def __init__(self, send: Send, scope: Scope, *, secure: bool) -> None:
        self._send, self._scope, self.status = send, scope, 0
        self._own = HEADERS | (TLS_ALONE if secure else {})

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            ours = dict(self._own)
            if self._scope["path"].startswith(STATIC_ROUTE):
                ours["cache-control"] = "no-cache"  # asked for again, and answered by 304
            theirs = [(name, value) for name, value in message["headers"] if name.lower() not in _SET]
            message = {**message, "headers": theirs + [(name.encode(), value.encode()) for name, value in ours.items()]}
        await self._send(message)

    async def refuse(self, status: int, fact: str) -> None:
        """A few words, unless a response has begun."""
        if self.status:
            return
        as_json = self._scope["path"].startswith("/api/")
        body = json.dumps({"format": "discreet.error/1", "error": fact}) if as_json else f"{status}: {fact}.\n"
        kind = "application/json" if as_json else "text/plain; charset=utf-8"
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body.encode()})


class _Counted:
    """`receive`, up to so many bytes."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooLong
        return message


_SET = frozenset(name.encode() for name in HEADERS)


def host_name(host: str) -> str:
    """Of a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _from_here(headers: dict[bytes, bytes], host: str) -> bool:
    """Whether a browser says that one of our pages sent it; what is no browser says nothing. An origin that is none
    raises ValueError.
    """
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site not in (None, b"same-origin", b"none"):
        return False
    if origin is None or origin == b"null":  # null: what no-referrer makes of a form's origin
        return origin is None or site == b"same-origin"
    parts = urlsplit(origin.decode("ascii"))
    if not (parts.scheme and parts.hostname) or parts.port == 0:  # a port that is no number raises by itself
        raise ValueError
    return parts.netloc.lower() == host.lower()


def route_of(scope: Scope) -> str:
    """As it was declared: an address may hold anything."""
    if scope["path"].startswith(STATIC_ROUTE):
        return STATIC_ROUTE
    return str(getattr(scope.get("route"), "path", "-"))


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
