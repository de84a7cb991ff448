"""Templates, filled: everything that enters one is escaped, and a name that is missing is an error, not a gap."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from discreet._version import __version__

if TYPE_CHECKING:
    from discreet.web.access import Visitor

HERE = Path(__file__).parent
STATIC = HERE / "static"


@cache
def environment() -> Environment:
    """Of all templates."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["version"] = __version__
    return made


def page(name: str, visitor: Visitor | None = None, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as a response. ``visitor``: who sees it; None before the login."""
    csrf = None if visitor is None else visitor.csrf
    user = None if visitor is None else visitor.user
    text = environment().get_template(name).render(values | {"user": user, "csrf": values.get("csrf", csrf)})
    return HTMLResponse(text, status_code=status)


def error_page(status: int, message: str) -> HTMLResponse:
    """A page that says why there is none."""
    return page("error.html", status=status, title=HTTPStatus(status).phrase, message=message)
