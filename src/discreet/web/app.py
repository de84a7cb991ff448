"""The application: routes, what holds for all of them, and errors as words that quote nothing.

    create_app(Hosting(campaigns=[Hosted(load)]))    an ASGI application

A new page is a router in a file of its own, included here; its routes take a dependency of `access`.
"""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from discreet._version import __version__
from discreet.errors import BadInput, DiscreetError, NotNow, PoolChanged, StoreUnavailable
from discreet.web import interface, label_pages, login, owner, owner_interface, owner_papers
from discreet.web.access import AccessRefused
from discreet.web.attempts import Attempts
from discreet.web.guards import Guard
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
    for one in (login, label_pages, owner, owner_papers, interface, owner_interface):
        app.include_router(one.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_exception_handler(AccessRefused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(DiscreetError, _ours)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_middleware(Guard, hosting=hosting)
    return app


def _refused(request: Request, error: Any) -> Response:
    """Nobody, not for them, or too often."""
    if error.status == 401 and not _for_programs(request):
        if request.headers.get("hx-request") == "true":
            return Response(status_code=401, headers={"HX-Redirect": "/login"})
        return RedirectResponse("/login", status_code=303)
    response = _said(request, error.status, error.message)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.wait:
        response.headers["Retry-After"] = str(math.ceil(error.wait))
    return response


def _invalid(request: Request, error: Any) -> Response:
    """Where a request does not fit, and what is expected there; never what it said."""
    places = {".".join(part for part in one["loc"] if part in _OURS) + f" ({one['type']})" for one in error.errors()}
    return _said(request, 422, f"the request does not fit at {', '.join(sorted(places)[:5])}")


_OURS = ("body", "path", "query", "value", "question")
"""Places that we declared; a key that somebody made up is theirs."""


def _http(request: Request, error: Any) -> Response:
    """Of the framework: no such address, no such method."""
    long = error.status_code == 413
    words = "the body is too long" if long else "there is nothing here, or not in this way"
    response = _said(request, error.status_code, words)
    response.headers.update(error.headers or {})
    return response


def _gone(request: Request, error: Any) -> Response:
    """Whoever asked hung up, or was too slow. Nobody reads this; the log has its status, as other servers write it."""
    return Response(status_code=499)


def _ours(request: Request, error: Any) -> Response:
    """Refusals of a campaign. Their words hold parameters, never records; numbers in them may be the owner's."""
    owners = getattr(request.state, "role", "") == "owner"
    return _said(request, status_of(error), str(error) if owners else words_of(error))


def status_of(error: DiscreetError) -> int:
    """As HTTP says it."""
    if isinstance(error, StoreUnavailable):
        return 503
    if isinstance(error, NoSuchQuestion):
        return 404
    if isinstance(error, NotNow | PoolChanged):
        return 409
    return 400 if isinstance(error, BadInput) else 500


def words_of(error: DiscreetError) -> str:
    """What anybody may hear of a refusal."""
    said = {
        NoSuchQuestion: "there is no such question for you",
        NotNow: "this cannot be done now",
        PoolChanged: "the record of this question was changed since it was enrolled; tell the owner",
        StoreUnavailable: "the store is busy; try again in a moment",
    }
    return next((words for kind, words in said.items() if isinstance(error, kind)), "this cannot be taken as it stands")


def _for_programs(request: Request) -> bool:
    return request.url.path.startswith(API)


def _said(request: Request, status: int, message: str) -> Response:
    if _for_programs(request):
        return JSONResponse({"format": ERROR, "error": message}, status_code=status)
    return error_page(status, message)
