"""Who is asking, and whether they may: sessions in cookies for pages, bearer tokens for the JSON interface.

Guarantee: a route names one of `visitor`, `owner`, `posted`, `posted_by_owner`, `bearer` or `bearer_owner`, or it is
listed in `PUBLIC`; a test asks every route of the application without being anybody. What changes something takes the
session's own CSRF token besides its cookie; the cookie is HttpOnly and SameSite=Strict. Pages take no bearer token, the
JSON interface no cookie, so the one cannot be used through the other.

The CSRF token is a keyed hash of the session's secret, so it needs no place to be kept, and does not tell the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from discreet.campaign import Campaign
from discreet.errors import DiscreetError
from discreet.storage import User
from discreet.storage.access_log import Action, Outcome
from discreet.web.attempts import Attempts, address_key
from discreet.web.hosting import Hosted, Hosting

PUBLIC = ("/login", "/static")
"""Routes that anybody may ask: what stands there is the same for everybody."""
_FIELDS = 1000


class AccessRefused(Exception):
    """``status``: 401, nobody is logged in; 403, it is not for them; 429, too many attempts."""

    def __init__(self, status: int, message: str, *, wait: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.message, self.wait = status, message, wait


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Somebody who is known here, and the campaign that knows them."""

    hosted: Hosted = field(repr=False)
    user: User
    csrf: str = field(default="", repr=False)

    @property
    def campaign(self) -> Campaign:
        """As it is now."""
        return self.hosted.campaign()


@dataclass(frozen=True, kw_only=True, repr=False)
class Posted:
    """A form that a visitor's own page sent. ``fields``: the last value of each; ``several``: all of them, in order."""

    visitor: Visitor
    fields: Mapping[str, str]
    several: Mapping[str, tuple[str, ...]]


def hosting_of(request: Request) -> Hosting:
    """What the application serves."""
    found: Hosting = request.app.state.hosting
    return found


def attempts_of(request: Request) -> Attempts:
    """Failures that the application remembers."""
    found: Attempts = request.app.state.attempts
    return found


def came_from(request: Request) -> str:
    """The address, as the limit on attempts knows it."""
    return address_key(request.client.host if request.client else None)


# -- pages


def visitor(request: Request) -> Visitor:
    """Whoever has a session."""
    secret = request.cookies.get(cookie_name(hosting_of(request)), "")
    found = hosting_of(request).by_session(secret) if secret else None
    if found is None:
        raise AccessRefused(401, "log in first")
    request.state.role = found[1].role
    return Visitor(hosted=found[0], user=found[1], csrf=csrf_of(secret))


def owner(found: Annotated[Visitor, Depends(visitor)]) -> Visitor:
    """Whoever has an owner's session."""
    return _owner(found)


async def posted(request: Request, found: Annotated[Visitor, Depends(visitor)]) -> Posted:
    """A form with the session's CSRF token, in a field or in a header."""
    several = await fields_of(request)
    fields = {name: values[-1] for name, values in several.items()}
    given = request.headers.get("x-csrf-token") or fields.get("csrf", "")
    if not same(given, found.csrf):
        raise AccessRefused(403, "the form does not belong to this session; load the page again")
    return Posted(visitor=found, fields=fields, several=several)


def posted_by_owner(form: Annotated[Posted, Depends(posted)]) -> Posted:
    """The same, of an owner."""
    _owner(form.visitor)
    return form


# -- the JSON interface

_scheme = HTTPBearer(auto_error=False, description="A user's token, as `discreet user add` printed it.")


def bearer(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(_scheme)] = None
) -> Visitor:
    """Whoever has a token."""
    key = came_from(request)
    found = None if given is None else hosting_of(request).by_token(given.credentials)
    if found is None:  # who has a token is heard, whoever else fails at the same address
        check_wait(request, [key])
        if given is not None:
            note_failure(request, "token")
        raise AccessRefused(401, "a valid bearer token is needed")
    request.state.role = found[1].role
    return Visitor(hosted=found[0], user=found[1])


def bearer_owner(found: Annotated[Visitor, Depends(bearer)]) -> Visitor:
    """Whoever has an owner's token."""
    return _owner(found)


# -- the access log


def note(
    request: Request, found: Visitor, action: Action, outcome: Outcome = "done", *, phase: int | None = None
) -> None:
    """Write what somebody does into the access log of their campaign."""
    log = found.hosted.store.access_log
    log.write(action, outcome, actor=found.user.name, address=address_of(request), phase=phase)


@contextmanager
def note_refusals(request: Request, found: Visitor, action: Action) -> Iterator[None]:
    """Write that somebody was refused what they wanted to do."""
    try:
        yield
    except DiscreetError:
        note(request, found, action, "refused")
        raise


def note_failure(request: Request, action: Action, name: str = "") -> None:
    """Count a failure to say who one is, and write it into the access log of every campaign. A name that nobody has
    is not written.
    """
    locked = attempts_of(request).failed([came_from(request)])
    outcomes: tuple[Outcome, ...] = ("refused", "locked-out") if locked else ("refused",)
    for hosted in hosting_of(request).campaigns:
        known = name in [one.name for one in hosted.store.users.everybody()]
        for outcome in outcomes:
            hosted.store.access_log.write(action, outcome, actor=name if known else None, address=address_of(request))


def address_of(request: Request) -> str:
    """From where somebody comes, as a proxy says it that is trusted; what is no address is not written."""
    try:
        return str(ipaddress.ip_address(request.client.host if request.client else ""))
    except ValueError:
        return "unknown"


# -- parts of it


def check_wait(request: Request, keys: list[str]) -> None:
    """Refuse unheard who failed too often."""
    wait = attempts_of(request).wait(keys)
    if wait:
        raise AccessRefused(429, "too many attempts failed; wait some minutes", wait=wait)


async def fields_of(request: Request) -> dict[str, tuple[str, ...]]:
    """Of a form as browsers send it. What is no such form has no fields."""
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except ValueError:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return found


def csrf_of(secret: str) -> str:
    """The token that a form must carry beside the cookie with this secret."""
    return hmac.new(secret.encode("utf-8", "surrogatepass"), b"discreet csrf", hashlib.sha256).hexdigest()


def same(given: str, wanted: str) -> bool:
    """Compared in a time that does not tell how much of it fits."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


def cookie_name(hosting: Hosting, use: str = "") -> str:
    """Of this server: cookies do not know ports, and two may run on one machine."""
    own = f"discreet-{hosting.campaigns[0].store.id[:8]}{use}"
    return f"__Host-{own}" if hosting.secure else own


def set_cookie(response: Response, hosting: Hosting, secret: str, use: str = "") -> None:
    """A cookie that scripts cannot read and other sites' pages do not send; it ends with the browser."""
    response.set_cookie(
        cookie_name(hosting, use), secret, httponly=True, samesite="strict", secure=hosting.secure, path="/"
    )


def drop_cookie(response: Response, hosting: Hosting, use: str = "") -> None:
    """Forget a cookie."""
    response.delete_cookie(cookie_name(hosting, use), httponly=True, samesite="strict", secure=hosting.secure, path="/")


def _owner(found: Visitor) -> Visitor:
    if found.user.role != "owner":
        raise AccessRefused(403, "this is for the owner")
    return found
