"""Who is asking, and whether they may: sessions in cookies for pages, bearer tokens for the JSON interface.

Guarantee: a route names one of `visitor`, `owner`, `posted`, `posted_by_owner`, `bearer` or `bearer_owner`, or it is
listed in `PUBLIC`; a test asks every route of the application without being anybody. What changes something takes the
session's own CSRF token besides its cookie; the cookie is HttpOnly and SameSite=Strict. Pages take no bearer token, the
JSON interface no cookie, so the one cannot be used through the other.

The CSRF token is a keyed hash of the session's secret, so it needs no place to be kept, and does not tell the secret.

Failed attempts
---------------
How often somebody may be wrong about who they are, by address.

Names are not counted: anybody may say another's name, and would keep them out.

Guarantee: after `MOST` failures within `WINDOW` seconds further attempts are refused unheard, for as long as that
window lasts. Memory is bounded: the key that failed longest ago is forgotten first. A token has 256 bits, so this
spares the machine and the log; it is not what keeps guessers out.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, cast
from urllib.parse import parse_qsl

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from discreet.campaign import Campaign
from discreet.errors import DiscreetError
from discreet.storage import User
from discreet.storage.users import Action, Outcome
from discreet.web.hosting import Hosted, Hosting

PUBLIC = ("/login", "/static")
"""Routes that anybody may ask: what stands there is the same for everybody."""
_FIELDS = 1000


class AccessRefused(HTTPException):
    """``status``: 401, nobody is logged in; 403, it is not for them; 429, too many attempts."""

    def __init__(self, status: int, message: str, *, wait: float = 0.0) -> None:
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        super().__init__(status, message, headers | ({"Retry-After": str(math.ceil(wait))} if wait else {}))


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
    return cast("Hosting", request.app.state.hosting)


def attempts_of(request: Request) -> Attempts:
    """Failures that the application remembers."""
    return cast("Attempts", request.app.state.attempts)


def came_from(request: Request) -> str:
    """The address, as the limit on attempts knows it."""
    return address_key(request.client.host if request.client else None)


# -- pages


def visitor(request: Request) -> Visitor:
    """Whoever has a session."""
    secret = request.cookies.get(cookie_name(hosting_of(request)), "")
    known = hosting_of(request).by_session(secret) if secret else None
    if known is None:
        raise AccessRefused(401, "log in first")
    request.state.role = known[1].role
    return Visitor(hosted=known[0], user=known[1], csrf=csrf_of(secret))


def owner(caller: Annotated[Visitor, Depends(visitor)]) -> Visitor:
    """Whoever has an owner's session."""
    return _owner(caller)


async def posted(request: Request, known: Annotated[Visitor, Depends(visitor)]) -> Posted:
    """A form with the session's CSRF token, in a field or in a header."""
    several = await fields_of(request)  # read when it is known who asks
    fields = {name: values[-1] for name, values in several.items()}
    if not same(request.headers.get("x-csrf-token") or fields.get("csrf", ""), known.csrf):
        raise AccessRefused(403, "the form does not belong to this session; load the page again")
    return Posted(visitor=known, fields=fields, several=several)


def posted_by_owner(form: Annotated[Posted, Depends(posted)]) -> Posted:
    """The same, of an owner."""
    _owner(form.visitor)
    return form


# -- the JSON interface

_scheme = HTTPBearer(auto_error=False, description="A user's token, as `discreet user add` printed it.")


def bearer(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_scheme)] = None
) -> Visitor:
    """Whoever has a token."""
    known = None if credentials is None else hosting_of(request).by_token(credentials.credentials)
    if known is None:  # who has a token is heard, whoever else fails at the same address
        check_wait(request)
        if credentials is not None:
            note_failure(request, "token")
        raise AccessRefused(401, "a valid bearer token is needed")
    request.state.role = known[1].role
    return Visitor(hosted=known[0], user=known[1])


def bearer_owner(caller: Annotated[Visitor, Depends(bearer)]) -> Visitor:
    """Whoever has an owner's token."""
    return _owner(caller)


# -- the access log


def note(
    request: Request, caller: Visitor, action: Action, outcome: Outcome = "done", *, phase: int | None = None
) -> None:
    """Write what somebody does into the access log of their campaign."""
    log = caller.hosted.store.access_log
    log.write(action, outcome, actor=caller.user.name, address=address_of(request), phase=phase)


@contextmanager
def note_refusals(request: Request, caller: Visitor, action: Action) -> Iterator[None]:
    """Write that somebody was refused what they wanted to do."""
    try:
        yield
    except DiscreetError:
        note(request, caller, action, "refused")
        raise


def note_failure(request: Request, action: Action, name: str = "") -> None:
    """Count a failure to say who one is, and write it into the access log of every campaign. A name that nobody has
    is not written.
    """
    locked = attempts_of(request).failed(came_from(request))
    outcomes: tuple[Outcome, ...] = ("refused", "locked-out") if locked else ("refused",)
    for hosted in hosting_of(request).campaigns:
        known = name in [user.name for user in hosted.store.users.everybody()]
        for outcome in outcomes:
            hosted.store.access_log.write(action, outcome, actor=name if known else None, address=address_of(request))


def address_of(request: Request) -> str:
    """From where somebody comes, as a proxy says it that is trusted; what is no address is not written."""
    try:
        return str(ipaddress.ip_address(request.client.host if request.client else ""))
    except ValueError:
        return "unknown"


# -- parts of it


def check_wait(request: Request) -> None:
    """Refuse unheard who failed too often from this address."""
    if wait := attempts_of(request).wait(came_from(request)):
        raise AccessRefused(429, "too many attempts failed; wait some minutes", wait=wait)


async def fields_of(request: Request) -> Mapping[str, tuple[str, ...]]:
    """Of a form as browsers send it. What is no such form has no fields."""
    try:
        pairs = parse_qsl(
            (await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict"
        )
    except ValueError:
        return {}
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return fields


def csrf_of(secret: str) -> str:
    """The token that a form must carry beside the cookie with this secret."""
    return hmac.new(secret.encode("utf-8", "surrogatepass"), b"discreet csrf", hashlib.sha256).hexdigest()


def same(text: str, wanted: str) -> bool:
    """Compared in a time that does not tell how much of it fits."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), wanted.encode("utf-8", "surrogatepass"))


def cookie_name(hosting: Hosting, use: str = "") -> str:
    """Of this server: cookies do not know ports, and two may run on one machine."""
    plain = f"discreet-{hosting.campaigns[0].store.id[:8]}{use}"
    return f"__Host-{plain}" if hosting.secure else plain


def set_cookie(response: Response, hosting: Hosting, secret: str, use: str = "") -> None:
    """A cookie that scripts cannot read and other sites' pages do not send; it ends with the browser."""
    response.set_cookie(
        cookie_name(hosting, use), secret, httponly=True, samesite="strict", secure=hosting.secure, path="/"
    )


def drop_cookie(response: Response, hosting: Hosting, use: str = "") -> None:
    """Forget a cookie."""
    response.delete_cookie(cookie_name(hosting, use), httponly=True, samesite="strict", secure=hosting.secure, path="/")


def _owner(caller: Visitor) -> Visitor:
    if caller.user.role != "owner":
        raise AccessRefused(403, "this is for the owner")
    return caller


# -- failed attempts


WINDOW = 300.0
MOST = 20
_KEYS = 10_000


class Attempts:
    """Failures that are remembered. ``clock``: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str) -> float:
        """Seconds until another attempt is heard; 0: now."""
        with self._guard:
            return self._wait(key)

    def failed(self, key: str) -> bool:
        """Remember a failure; whether the next attempt is refused unheard."""
        with self._guard:
            self._failed.setdefault(key, deque(maxlen=MOST)).append(self._clock())
            self._failed.move_to_end(key)
            while len(self._failed) > _KEYS:
                self._failed.popitem(last=False)
            return self._wait(key) > 0

    def _wait(self, key: str) -> float:
        times = self._failed.get(key)
        if times is None or len(times) < MOST:
            return 0.0
        return max(0.0, times[0] + WINDOW - self._clock())


def address_key(host: str | None) -> str:
    """An address; of IPv6 its network, for one customer has many."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return "address ?"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # as a proxy may write it that listens to both
    if address.version == 6:
        return f"address {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"
