"""Pages for everybody: templates, in and out, and labelling.

Templates
---------
Everything that enters one is escaped, and a name that is missing is an error, not a gap.

In and out
----------
A name and its token begin a session; failures are counted by address.

Labelling
---------
One question at a time, by keys, by mouse or by thumb.

Everything works without scripts, as plain forms and whole pages; with them htmx exchanges the task alone, and keys
press the buttons that name them. A class is sent as its number in the declared order: labels are in no address or form.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from discreet._version import __version__
from discreet.errors import BadInput
from discreet.records import Value
from discreet.web.access import (
    Posted,
    Visitor,
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
from discreet.web.queue import NoSuchQuestion, Queue, Sheet

HERE = Path(__file__).parent
STATIC = HERE / "static"


@cache
def environment() -> Environment:
    """Of all templates."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["version"] = __version__
    return templates


def page(name: str, visitor: Visitor | None = None, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as a response. ``visitor``: who sees it; None before the login."""
    of_visitor = {"user": None, "csrf": None} if visitor is None else {"user": visitor.user, "csrf": visitor.csrf}
    return HTMLResponse(environment().get_template(name).render(of_visitor | values), status_code=status)


def error_page(status: int, message: str) -> HTMLResponse:
    """A page that says why there is none."""
    return page("error.html", status=status, title=HTTPStatus(status).phrase, message=message)


# -- in and out


router = APIRouter(include_in_schema=False)
_BEFORE = "-login"
"""The cookie that a login's own CSRF token is made of: there is no session yet."""


@router.get("/")
def start(caller: Annotated[Visitor, Depends(visitor)]) -> Response:
    """To one's own first page."""
    return RedirectResponse(first_page(caller.user.role), status_code=303)


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
def log_in(request: Request, several: Annotated[Mapping[str, tuple[str, ...]], Depends(fields_of)]) -> Response:
    """A session for whoever knows a name's token."""
    fields = {name: values[-1] for name, values in several.items()}
    before = request.cookies.get(cookie_name(hosting_of(request), _BEFORE), "")
    if not before or not same(fields.get("csrf", ""), csrf_of(before)):
        return _form(request, 403, "This form was open for too long. Try again.")
    name, token = fields.get("name", "").strip(), fields.get("token", "").strip()
    check_wait(request)  # by address, not by name: whoever knows one could keep its person out
    known, secret = hosting_of(request).by_login(name, token), None
    if known is not None:  # and again as the session begins: they may be removed meanwhile
        secret = known[0].store.users.begin_session(known[1].name, token)
    if known is None or secret is None:
        note_failure(request, "login", name)
        return _form(request, 401, "The name and the token do not belong together.")
    old = request.cookies.get(cookie_name(hosting_of(request)), "")
    if old and (before_it := hosting_of(request).by_session(old)):
        before_it[0].store.users.end_session(old)  # of this browser: nobody can log it out now
        note(request, Visitor(hosted=before_it[0], user=before_it[1]), "logout")
    note(request, Visitor(hosted=known[0], user=known[1]), "login")
    return _begun(request, secret, known[1].role)


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


# -- labelling


_KEYS = "1234567890qwertyiopadfghjklzxcvbnm"
"""Of classes. The page itself takes s to skip and u to undo."""


@router.get("/label")
def show(caller: Annotated[Visitor, Depends(visitor)]) -> Response:
    """The whole page."""
    return _shown(caller, "label.html")


@router.post("/label/answer")
def answer(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """A class by its number; of several labels, all that hold. Then the next question."""
    queue = Queue(visitor=form.visitor)
    queue.answer(_question(form), _value(form))
    return _next(request, form.visitor)


@router.post("/label/skip")
def skip(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """Say nothing about this record, and go on."""
    Queue(visitor=form.visitor).answer(_question(form), None)
    return _next(request, form.visitor)


@router.post("/label/undo")
def undo(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """Back to what was answered before; it stands until it is answered otherwise."""
    sheet = Queue(visitor=form.visitor).before(form.fields.get("question"))
    if sheet is None:
        return _next(request, form.visitor)
    template = "task.html" if _by_htmx(request) else "label.html"
    return page(template, form.visitor, **_values(form.visitor, sheet))


@router.get("/label/picture/{question}")
def picture(question: str, caller: Annotated[Visitor, Depends(visitor)]) -> Response:
    """The picture of one's own question."""
    return Response(Queue(visitor=caller).picture(question), media_type="image/png")


def keys_of(classes: tuple[str, ...]) -> tuple[str, ...]:
    """The key of each class: its own sign, where all names are single ones; else digits, then letters."""
    initials = tuple(name.lower() for name in classes)
    if all(len(name) == 1 and name in _KEYS for name in initials) and len(set(initials)) == len(initials):
        return initials
    return tuple(_KEYS[: len(classes)]) + ("",) * (len(classes) - len(_KEYS))


def _next(request: Request, caller: Visitor) -> Response:
    if _by_htmx(request):
        return _shown(caller, "task.html")
    return RedirectResponse("/label", status_code=303)


def _by_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _shown(caller: Visitor, template: str) -> Response:
    sheet, message = Queue(visitor=caller).following()
    return page(template, caller, **_values(caller, sheet, message))


def _values(caller: Visitor, sheet: Sheet | None, message: str = "") -> dict[str, Any]:
    campaign = caller.campaign
    classes = campaign.recipe.classes
    answered = sheet.value if sheet is not None else None
    several = answered if isinstance(answered, tuple) else (answered,)
    options = [
        {"number": number, "name": name, "key": key, "chosen": name in several}
        for number, (name, key) in enumerate(zip(classes, keys_of(classes), strict=True))
    ]
    return {
        "campaign": campaign.name,
        "simulation": campaign.simulation,
        "sheet": sheet,
        "message": message,
        "options": options,
        "multilabel": campaign.recipe.multilabel,
        "progress": Queue(visitor=caller).progress(),
    }


def _question(form: Posted) -> str:
    if "question" not in form.fields:
        raise NoSuchQuestion
    return form.fields["question"]


def _value(form: Posted) -> Value:
    """The classes that were sent by their numbers."""
    recipe = form.visitor.campaign.recipe
    sent = form.several.get("value", ())
    known = {str(number): number for number in range(len(recipe.classes))}
    numbers = [known[number] for number in sent if number in known]
    if len(numbers) != len(sent) or (not recipe.multilabel and len(numbers) != 1):
        raise BadInput("an answer", "it is none of the declared classes", "Press one of the buttons")
    chosen = tuple(recipe.classes[number] for number in numbers)
    return chosen if recipe.multilabel else chosen[0]
