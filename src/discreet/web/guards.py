"""What holds for every request, before any route sees it, and for every response, also of an error.

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
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.web.hosting import Hosting

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
STATIC = "/static/"
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
        log.info("%s %s %s %.1f ms", _method(scope), route_of(scope), answer.status, took)

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
            own = dict(self._own)
            if self._scope["path"].startswith(STATIC):
                own["cache-control"] = "no-cache"  # asked for again, and answered by 304
            given = [(name, value) for name, value in message["headers"] if name.lower() not in _SET]
            message = {**message, "headers": given + [(name.encode(), value.encode()) for name, value in own.items()]}
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

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most

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
    if origin is None or (origin == b"null" and site == b"same-origin"):  # what no-referrer makes of a form's origin
        return True
    if origin == b"null":
        return False
    parts = urlsplit(origin.decode("ascii"))
    if not (parts.scheme and parts.hostname) or parts.port == 0:  # a port that is no number raises by itself
        raise ValueError
    return parts.netloc.lower() == host.lower()


def route_of(scope: Scope) -> str:
    """As it was declared: an address may hold anything."""
    if scope["path"].startswith(STATIC):
        return STATIC
    return str(getattr(scope.get("route"), "path", "-"))


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in (*SAFE, "POST", "PUT", "PATCH", "DELETE") else "?"


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
