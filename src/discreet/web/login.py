"""In and out. A name and its token begin a session; failures are counted by address."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from discreet.web.access import (
    Posted,
    Visitor,
    came_from,
    check_wait,
    cookie_name,
    csrf_of,
    drop_cookie,
    fields_of,
    hosting_of,
    note,
    note_failure,
    posted,
    same,
    set_cookie,
    visitor,
)
from discreet.web.pages import page

router = APIRouter(include_in_schema=False)
_BEFORE = "-login"
"""The cookie that a login's own CSRF token is made of: there is no session yet."""


@router.get("/")
def start(found: Annotated[Visitor, Depends(visitor)]) -> Response:
    """To one's own first page."""
    return RedirectResponse(first_page(found.user.role), status_code=303)


@router.get("/login")
def ask(request: Request) -> Response:
    """The form; where everybody on this machine is let in, the session itself."""
    hosting = hosting_of(request)
    if hosting.anonymous:
        users = hosting.campaigns[0].store.users
        user = users.loopback()
        secret = users.begin_session(user.name, None)
        assert secret is not None  # nobody takes it away
        note(request, Visitor(hosted=hosting.campaigns[0], user=user), "login")
        return _begun(request, secret, "owner")
    return _form(request, 200, "")


@router.post("/login")
async def log_in(request: Request) -> Response:
    """A session for whoever knows a name's token."""
    fields = {name: values[-1] for name, values in (await fields_of(request)).items()}
    before = request.cookies.get(cookie_name(hosting_of(request), _BEFORE), "")
    if not before or not same(fields.get("csrf", ""), csrf_of(before)):
        return _form(request, 403, "This form was open for too long. Try again.")
    name, token = fields.get("name", "").strip(), fields.get("token", "").strip()
    check_wait(request, [came_from(request)])  # not the name: whoever knows one could keep its person out
    found = await run_in_threadpool(hosting_of(request).by_login, name, token)
    secret = None
    if found is not None:  # and again as the session begins: they may be removed meanwhile
        secret = await run_in_threadpool(found[0].store.users.begin_session, found[1].name, token)
    if found is None or secret is None:
        await run_in_threadpool(note_failure, request, "login", name)
        return _form(request, 401, "The name and the token do not belong together.")
    old = request.cookies.get(cookie_name(hosting_of(request)), "")
    if old and (before_it := await run_in_threadpool(hosting_of(request).by_session, old)):
        await run_in_threadpool(before_it[0].store.users.end_session, old)  # of this browser: nobody can log it out now
        await run_in_threadpool(note, request, Visitor(hosted=before_it[0], user=before_it[1]), "logout")
    await run_in_threadpool(note, request, Visitor(hosted=found[0], user=found[1]), "login")
    return _begun(request, secret, found[1].role)


@router.post("/logout")
def log_out(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """The session ends, here and in the store."""
    hosting = hosting_of(request)
    form.visitor.hosted.store.users.end_session(request.cookies[cookie_name(hosting)])
    note(request, form.visitor, "logout")
    response = RedirectResponse("/login", status_code=303)
    drop_cookie(response, hosting)
    return response


def first_page(role: str) -> str:
    """Where somebody begins."""
    return "/owner" if role == "owner" else "/label"


def _form(request: Request, status: int, message: str) -> Response:
    secret = secrets.token_urlsafe(32)
    response = page("login.html", status=status, message=message, csrf=csrf_of(secret))
    set_cookie(response, hosting_of(request), secret, _BEFORE)
    return response


def _begun(request: Request, secret: str, role: str) -> Response:
    response = RedirectResponse(first_page(role), status_code=303)
    set_cookie(response, hosting_of(request), secret)
    drop_cookie(response, hosting_of(request), _BEFORE)
    return response
