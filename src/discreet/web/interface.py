"""The JSON interface of an annotator: the verbs of the labelling page, for programs.

Who asks is known by a bearer token, so there is no cookie and no CSRF token. Bodies are checked by declared forms;
what does not fit is refused without repeating it. `next` is a POST: it assigns a question, and records that.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from discreet.records import Value
from discreet.web.access import Visitor, bearer
from discreet.web.queue import QuestionsLeft, Queue, Sheet

MOST = 1000
"""Of an id, and of labels in one answer."""
Known = Annotated[Visitor, Depends(bearer)]
QuestionId = Annotated[str, Path(min_length=1, max_length=MOST, description="As `next` gave it.")]
Label = Annotated[str, Field(max_length=MOST)]


class Refusal(BaseModel):
    """Why there is no answer. Never what was sent."""

    format: Literal["discreet.error/1"] = "discreet.error/1"
    error: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "It cannot be taken as it stands."},
    401: {"model": Refusal, "description": "A valid bearer token is needed."},
    403: {"model": Refusal, "description": "It is for the owner."},
    404: {"model": Refusal, "description": "There is no such question for you."},
    409: {"model": Refusal, "description": "Not now: a cap is reached, or a record was changed."},
    413: {"model": Refusal, "description": "The body is too long."},
    422: {"model": Refusal, "description": "The request does not fit its form."},
    429: {"model": Refusal, "description": "Too many attempts failed."},
    503: {"model": Refusal, "description": "The store is busy."},
}
router = APIRouter(prefix="/api/v1", responses=REFUSALS)


class Form(BaseModel):
    """What is not declared is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnswerForm(Form):
    """An answer: a class, or for several labels a list of those that hold, which may be empty."""

    value: Label | Annotated[list[Label], Field(max_length=MOST)]


class UndoForm(Form):
    """From which question to go back; none: from the end."""

    question: Label | None = None


class Row(BaseModel):
    """A named number of a table, as text."""

    name: str
    value: str


class ShownQuestion(BaseModel):
    """A question as its annotator sees it.

    ``picture``: where its PNG is, for the same token. ``answered``, ``said``: what this annotator answered before.
    """

    id: str
    kind: Literal["picture", "text", "table", "broken"]
    text: str | None = None
    rows: list[Row] | None = None
    picture: str | None = None
    answered: bool = False
    said: str | list[str] | None = None


class LabellingState(BaseModel):
    """The question to answer now, if there is one, and what there is to choose from.

    ``reason``: why none comes after an answer, which was stored, where it is not that all are answered.
    """

    format: Literal["discreet.question/1"] = "discreet.question/1"
    simulation: bool
    audience: Literal["annotator"] = "annotator"
    multilabel: bool
    classes: list[str]
    question: ShownQuestion | None
    reason: str | None = None
    progress: QuestionsLeft


@router.post("/next", summary="The question to answer now")
def upcoming(caller: Known) -> LabellingState:
    """The one that waits for an answer, or a new one, which is recorded as shown first. It never asks a query."""
    return _standing(caller, Queue(visitor=caller).upcoming())


@router.post("/questions/{question}/answer", summary="Answer, or correct an answer")
def answer(question: QuestionId, form: AnswerForm, caller: Known) -> LabellingState:
    """Store an answer to a question of one's own; the next one comes back."""
    value: Value = tuple(form.value) if isinstance(form.value, list) else form.value
    queue = Queue(visitor=caller)
    queue.answer(question, value)
    return _standing(caller, *queue.following())


@router.post("/questions/{question}/skip", summary="Say nothing about a record")
def skip(question: QuestionId, caller: Known) -> LabellingState:
    """A skip is an answer, too; the next question comes back."""
    queue = Queue(visitor=caller)
    queue.answer(question, None)
    return _standing(caller, *queue.following())


@router.post("/undo", summary="UndoForm to an answer")
def undo(back: UndoForm, caller: Known) -> LabellingState:
    """The question that was answered before another one. Its answer stands until another one is given."""
    return _standing(caller, Queue(visitor=caller).before(back.question))


@router.get("/progress", summary="How far one is")
def progress(caller: Known) -> QuestionsLeft:
    """Of this annotator alone."""
    return Queue(visitor=caller).progress()


@router.get(
    "/questions/{question}/picture",
    summary="A question's picture",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}, "description": "PNG, encoded from the record's pixels."}},
)
def picture(question: QuestionId, caller: Known) -> Response:
    """Of one's own question."""
    return Response(Queue(visitor=caller).picture(question), media_type="image/png")


@router.get("/openapi.json", summary="This description", response_class=JSONResponse)
def description(request: Request, caller: Known) -> JSONResponse:
    """OpenAPI."""
    return JSONResponse(request.app.openapi())


def _standing(caller: Visitor, sheet: Sheet | None, reason: str = "") -> LabellingState:
    campaign = caller.campaign
    return LabellingState(
        simulation=campaign.simulation,
        multilabel=campaign.recipe.multilabel,
        classes=list(campaign.recipe.classes),
        question=None if sheet is None else _question(sheet),
        reason=reason or None,
        progress=Queue(visitor=caller).progress(),
    )


def _question(sheet: Sheet) -> ShownQuestion:
    view = sheet.view
    return ShownQuestion(
        id=sheet.question_id,
        kind=view.kind,
        text=view.text or None if view.kind != "text" else view.text,
        rows=[Row(name=name, value=value) for name, value in view.rows] or None,
        picture=f"/api/v1/questions/{sheet.question_id}/picture" if view.kind == "picture" else None,
        answered=sheet.again,
        said=list(sheet.value) if isinstance(sheet.value, tuple) else sheet.value,
    )
