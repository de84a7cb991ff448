"""The labelling page: one question at a time, by keys, by mouse or by thumb.

Everything works without scripts, as plain forms and whole pages; with them htmx exchanges the task alone, and keys
press the buttons that name them. A class is sent as its number in the declared order: labels are in no address or form.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from discreet.errors import BadInput
from discreet.records import Value
from discreet.web.access import Posted, Visitor, posted, visitor
from discreet.web.pages import page
from discreet.web.queue import NoSuchQuestion, Queue, Sheet

router = APIRouter(prefix="/label", include_in_schema=False)
SKIP, UNDO = "s", "u"
_KEYS = "1234567890qwertyiopadfghjklzxcvbnm"


@router.get("")
def show(found: Annotated[Visitor, Depends(visitor)]) -> Response:
    """The whole page."""
    return _shown(found, "label.html")


@router.post("/answer")
def answer(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """A class by its number; of several labels, all that hold. Then the next question."""
    queue = Queue(visitor=form.visitor)
    queue.answer(_question(form), _value(form))
    return _next(request, form.visitor)


@router.post("/skip")
def skip(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """Say nothing about this record, and go on."""
    Queue(visitor=form.visitor).answer(_question(form), None)
    return _next(request, form.visitor)


@router.post("/undo")
def undo(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """Back to what was answered before; it stands until it is answered otherwise."""
    sheet = Queue(visitor=form.visitor).before(form.fields.get("question"))
    if sheet is None:
        return _next(request, form.visitor)
    template = "task.html" if _by_htmx(request) else "label.html"
    return page(template, form.visitor, **_values(form.visitor, sheet))


@router.get("/picture/{question}")
def picture(question: str, found: Annotated[Visitor, Depends(visitor)]) -> Response:
    """The picture of one's own question."""
    return Response(Queue(visitor=found).picture(question), media_type="image/png")


def keys_of(classes: tuple[str, ...]) -> tuple[str, ...]:
    """The key of each class: its own sign, where all names are single ones; else digits, then letters."""
    own = tuple(name.lower() for name in classes)
    if all(len(name) == 1 and name in _KEYS for name in own) and len(set(own)) == len(own):
        return own
    return tuple(_KEYS[: len(classes)]) + ("",) * (len(classes) - len(_KEYS))


def _next(request: Request, found: Visitor) -> Response:
    if _by_htmx(request):
        return _shown(found, "task.html")
    return RedirectResponse("/label", status_code=303)


def _by_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _shown(found: Visitor, template: str) -> Response:
    sheet, message = Queue(visitor=found).following()
    return page(template, found, **_values(found, sheet, message))


def _values(found: Visitor, sheet: Sheet | None, message: str = "") -> dict[str, Any]:
    campaign = found.campaign
    classes = campaign.recipe.classes
    said = sheet.said if sheet is not None else None
    several = said if isinstance(said, tuple) else (said,)
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
        "progress": Queue(visitor=found).progress(),
    }


def _question(form: Posted) -> str:
    if "question" not in form.fields:
        raise NoSuchQuestion
    return form.fields["question"]


def _value(form: Posted) -> Value:
    """The classes that were sent by their numbers."""
    recipe = form.visitor.campaign.recipe
    given = form.several.get("value", ())
    known = {str(number): number for number in range(len(recipe.classes))}
    numbers = [known[one] for one in given if one in known]
    if len(numbers) != len(given) or (not recipe.multilabel and len(numbers) != 1):
        raise BadInput("an answer", "it is none of the declared classes", "Press one of the buttons")
    chosen = tuple(recipe.classes[number] for number in numbers)
    return chosen if recipe.multilabel else chosen[0]
