"""The owner's pages: where a campaign stands, what it spent, who labels, and what comes next, with buttons for it.

Guarantee: every route takes `owner` or `posted_by_owner`. A page that is looked at charges nothing; what costs anything
is a form of its own, which says the price first and is taken once (`owner_work`). Audience: owner.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from markupsafe import Markup as Safe
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from discreet.errors import BadInput, NotNow
from discreet.report.markup import rounded
from discreet.report.report_figures import meter_figure
from discreet.report.svg import draw_meter
from discreet.web.access import Posted, Visitor, address_of, note, note_refusals, owner, posted_by_owner
from discreet.web.owner_board import Board, board_of, forecast_now, open_in
from discreet.web.owner_figures import draw_days
from discreet.web.owner_work import VERBS, Confirmation, Verb, Work, Worker, Works, price_of, works_of
from discreet.web.pages import page

HOME = "/owner"
Owner = Annotated[Visitor, Depends(owner)]
Sent = Annotated[Posted, Depends(posted_by_owner)]
STATES = {
    "trained": "trained",
    "training": "training begun",
    "answering": "waits for answers",
    "next": "next",
    "ahead": "ahead",
}


@asynccontextmanager
async def _ending(app: FastAPI) -> AsyncIterator[None]:
    """Work that is under way when the server ends is stopped where it can be gone on with."""
    yield
    works: Works | None = getattr(app.state, "works", None)
    if works is not None:
        await run_in_threadpool(works.leave)


router = APIRouter(prefix=HOME, include_in_schema=False, lifespan=_ending)


@router.get("")
def board(request: Request, found: Owner) -> Response:
    """The dashboard."""
    campaign, worker = found.campaign, works_of(request).of(found.hosted)
    shown = board_of(campaign, changed=found.hosted.changed_in_queues())
    values = _now_values(shown.status.phase, shown.status.step, shown.open_now, worker)
    return page("owner/board.html", found, board=shown, **_pictures(shown), **values, **_frame(found))


@router.get("/now")
def now(request: Request, found: Owner) -> Response:
    """The card on top alone, for a page that is open; the whole page again when something else has changed."""
    campaign, worker = found.campaign, works_of(request).of(found.hosted)
    at = campaign.standing
    values = _now_values(at.phase, at.step, open_in(campaign, at), worker)
    if request.query_params.get("seen") != values["seen"]:
        return Response(status_code=204, headers={"HX-Refresh": "true"})
    return page("owner/now.html", found, **values, **_frame(found))


@router.get("/ask")
def confirm_ask(request: Request, found: Owner) -> Response:
    """What asking would charge."""
    return _confirm(request, found, "ask")


@router.get("/train")
def confirm_train(request: Request, found: Owner) -> Response:
    """What training would charge."""
    return _confirm(request, found, "train")


@router.post("/ask")
def ask(request: Request, form: Sent) -> Response:
    """Begin to ask the query that was confirmed."""
    with note_refusals(request, form.visitor, "ask"):
        return _begin(request, form, "ask")


@router.post("/train")
def train(request: Request, form: Sent) -> Response:
    """Begin, or go on with, the training that was confirmed."""
    with note_refusals(request, form.visitor, "train"):
        return _begin(request, form, "train")


@router.post("/stop")
def stop(request: Request, form: Sent) -> Response:
    """Stop what is being done, where it can be gone on with."""
    works_of(request).of(form.visitor.hosted).stop()
    note(request, form.visitor, "stop")
    return RedirectResponse(HOME, status_code=303)


def _confirm(request: Request, found: Visitor, verb: Verb) -> Response:
    price = price_of(found.hosted.store)  # before what is shown: what changes meanwhile is refused
    campaign, works = found.hosted.campaign(at_once=True), works_of(request)
    at = campaign.standing
    if verb not in VERBS[at.step]:
        raise NotNow(f"{verb} in {campaign.name}", _WHY_NOT[at.step], "Look where it stands now")
    left = open_in(campaign, at) if at.step == "answer" else 0
    if left:
        campaign.check_partial()
    shown = Confirmation(
        campaign=found.hosted.store.id, by=found.user.name, verb=verb, at=at, price=price, partial=left > 0
    )
    return page(
        "owner/confirm.html",
        found,
        verb=verb,
        at=at,
        left=left,
        planned=campaign.recipe.labels_planned(at.phase),
        forecast=forecast_now(campaign),
        rounded=rounded,
        token=works.show(shown),
        **_frame(found),
    )


_WHY_NOT = {
    "ask": "nobody was asked in this phase yet",
    "answer": "its questions are asked",
    "train": "its training was begun, and goes first",
    "done": "all of its phases are trained",
}


def _begin(request: Request, form: Posted, verb: Verb) -> Response:
    works, found = works_of(request), form.visitor
    token, mine = form.fields.get("token", ""), {"campaign": found.hosted.store.id, "by": found.user.name}
    if works.was_taken(token):  # a second click, or the same form again
        return RedirectResponse(HOME, status_code=303)
    agreed = works.take(token, verb=verb, **mine)
    if agreed is None:
        raise NotNow(f"{verb} in {found.campaign.name}", "its confirmation is not known here", "Confirm it again")
    if agreed.partial and form.fields.get("partial") != "yes":
        raise BadInput("training", "some questions are open, and nobody said to go on without them", "Confirm it again")
    works.of(found.hosted).start(
        verb,
        at=agreed.at,
        by=found.user.name,
        address=address_of(request),
        partial=agreed.partial,
        price=agreed.price,
    )
    return RedirectResponse(HOME, status_code=303)


def _now_values(phase: int, step: str, left: int, worker: Worker) -> dict[str, Any]:
    work, elsewhere = worker.work, worker.elsewhere
    return {
        "phase": phase,
        "step": step,
        "left": left,
        "work": work,
        "elsewhere": elsewhere,
        "seen": f"{phase}-{step}-{_mark(work)}-{'elsewhere' if elsewhere else 'here'}-{'open' if left else 'none'}",
    }


def _mark(work: Work | None) -> str:
    """What a page shows of work; while it goes on, the card alone changes."""
    if work is None:
        return "idle"
    return "running" if work.running else f"{work.state}-{work.ended:%H%M%S}"


def _pictures(shown: Board) -> dict[str, Any]:
    # both are escaped by construction (discreet.report.markup)
    meters = [(one, Safe(draw_meter(meter_figure(one)))) for one in shown.meters]
    return {
        "meters": meters,
        "days": Safe(draw_days(shown.days)),
        "rounded": rounded,
        "states": STATES,
    }


def _frame(found: Visitor) -> dict[str, Any]:
    return {"campaign": found.campaign.name, "simulation": found.campaign.simulation}
