"""The owner's pages: where a campaign stands, what it spent, who labels, and what comes next, with buttons for it.

Guarantee: every route takes `owner` or `posted_by_owner`. A page that is looked at charges nothing; what costs anything
is a form of its own, which says the price first and is taken once (`owner_work`). Audience: owner.

Papers
------
Papers of a campaign: report, certificate, what a verification finds, and who was shown what, to read and to keep.

What is offered first is the public's; what is the owner's says so in its name and on its page. A certificate takes
seconds to compute, and is kept for the state of the ledger that it is of. Audience: owner, and as each paper says.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from markupsafe import Markup as Safe
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from discreet.campaign import Campaign
from discreet.campaign.state import ledger_of, public_ledger, today
from discreet.config import CampaignFile
from discreet.errors import BadInput, NotNow
from discreet.privacy.certificate import Verdict
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.report.campaign_report import Report, claim_in_words, rounded
from discreet.report.markup import draw_meter
from discreet.report.page import STYLE, to_html
from discreet.report.report_data import exposure_csv, exposure_form, report_of
from discreet.trainers.metric_words import value_of
from discreet.web.access import Posted, Visitor, address_of, note, note_refusals, owner, posted_by_owner
from discreet.web.owner_board import Board, board_of, draw_days, forecast_now, open_in
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
def board(request: Request, caller: Owner) -> Response:
    """The dashboard."""
    campaign, worker = caller.campaign, works_of(request).of(caller.hosted)
    shown = board_of(campaign, changed=caller.hosted.changed_in_queues())
    values = _now_values(shown.status.phase, shown.status.step, shown.open_now, worker)
    return page("owner/board.html", caller, board=shown, **_pictures(shown), **values, **_frame(caller))


@router.get("/now")
def now(request: Request, caller: Owner) -> Response:
    """The card on top alone, for a page that is open; the whole page again when something else has changed."""
    campaign, worker = caller.campaign, works_of(request).of(caller.hosted)
    at = campaign.state
    values = _now_values(at.phase, at.step, open_in(campaign, at), worker)
    if request.query_params.get("seen") != values["seen"]:
        return Response(status_code=204, headers={"HX-Refresh": "true"})
    return page("owner/now.html", caller, **values, **_frame(caller))


@router.get("/ask")
def confirm_ask(request: Request, caller: Owner) -> Response:
    """What asking would charge."""
    return _confirm(request, caller, "ask")


@router.get("/train")
def confirm_train(request: Request, caller: Owner) -> Response:
    """What training would charge."""
    return _confirm(request, caller, "train")


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


def _confirm(request: Request, caller: Visitor, verb: Verb) -> Response:
    price = price_of(caller.hosted.store)  # before what is shown: what changes meanwhile is refused
    campaign, works = caller.hosted.campaign(at_once=True), works_of(request)
    at = campaign.state
    if verb not in VERBS[at.step]:
        raise NotNow(f"{verb} in {campaign.name}", _WHY_NOT[at.step], "Look where it stands now")
    left = open_in(campaign, at) if at.step == "answer" else 0
    if left:
        campaign.questions.check_partial()
    shown = Confirmation(
        campaign=caller.hosted.store.id, by=caller.user.name, verb=verb, at=at, price=price, partial=left > 0
    )
    return page(
        "owner/confirm.html",
        caller,
        verb=verb,
        at=at,
        left=left,
        planned=campaign.recipe.labels_planned(at.phase),
        forecast=forecast_now(campaign),
        rounded=rounded,
        token=works.show(shown),
        **_frame(caller),
    )


_WHY_NOT = {
    "ask": "nobody was asked in this phase yet",
    "answer": "its questions are asked",
    "train": "its training was begun, and goes first",
    "done": "all of its phases are trained",
}


def _begin(request: Request, form: Posted, verb: Verb) -> Response:
    works, caller = works_of(request), form.visitor
    token, theirs = form.fields.get("token", ""), {"campaign": caller.hosted.store.id, "by": caller.user.name}
    if works.was_taken(token):  # a second click, or the same form again
        return RedirectResponse(HOME, status_code=303)
    agreed = works.take(token, verb=verb, **theirs)
    if agreed is None:
        raise NotNow(f"{verb} in {caller.campaign.name}", "its confirmation is not known here", "Confirm it again")
    if agreed.partial and form.fields.get("partial") != "yes":
        raise BadInput("training", "some questions are open, and nobody said to go on without them", "Confirm it again")
    works.of(caller.hosted).start(
        verb,
        at=agreed.at,
        by=caller.user.name,
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
    meters = [(meter, Safe(draw_meter(meter))) for meter in shown.meters]
    return {
        "meters": meters,
        "days": Safe(draw_days(shown.days)),
        "rounded": rounded,
        "metric_value": value_of,
        "states": STATES,
    }


def _frame(caller: Visitor) -> dict[str, Any]:
    return {"campaign": caller.campaign.name, "simulation": caller.campaign.simulation}


# -- papers


Audience = Literal["public", "owner"]
LINKS = {"stylesheet": "/owner/report.css", "icon": "/static/icon.svg"}
_certificates: dict[str, tuple[tuple[str, str, str], dict[str, Any]]] = {}
_certifying = threading.Lock()


@router.get("/papers")
def papers(caller: Owner) -> Response:
    """What there is."""
    exposures = exposure_form(caller.campaign.exposures(), simulation=caller.campaign.simulation)
    return page(
        "owner/papers.html",
        caller,
        shown=exposures["shown"],
        rows=len(exposures["exposures"]),
        campaign=caller.campaign.name,
        simulation=caller.campaign.simulation,
    )


@router.get("/report/{audience}")
def report(audience: Audience, request: Request, caller: Owner) -> Response:
    """To read."""
    note(request, caller, "read-report")
    return Response(to_html(_report(caller.campaign, audience), links=LINKS), media_type="text/html")


@router.get("/report/{audience}/file")
def report_file(audience: Audience, request: Request, caller: Owner) -> Response:
    """To keep: one file with all that it needs."""
    note(request, caller, "read-report")
    name = "report.html" if audience == "public" else "report-for-the-owner.html"
    return kept(to_html(_report(caller.campaign, audience)), name, "text/html")


@router.get("/report.css")
def style(_: Owner) -> Response:
    """The style of a report, as a file: pages of this server carry none."""
    return Response(STYLE, media_type="text/css")


@router.get("/certificate")
def certificate(caller: Owner) -> Response:
    """What is guaranteed, in words."""
    campaign = caller.campaign
    form = certificate_of(campaign)
    with ledger_of(campaign.store) as ledger:
        claim = claim_in_words(ledger.terms.budget, form)
    return page(
        "owner/certificate.html",
        caller,
        form=form,
        claim=claim,
        campaign=campaign.name,
        simulation=campaign.simulation,
    )


@router.get("/verification")
def verification(caller: Owner) -> Response:
    """Whether it holds, when everything is computed again."""
    campaign = caller.campaign
    return page(
        "owner/verification.html",
        caller,
        verdicts=verdicts_of(campaign, certificate_of(campaign)),
        campaign=campaign.name,
        simulation=campaign.simulation,
    )


@router.get("/certificate/file")
def certificate_file(request: Request, caller: Owner) -> Response:
    """For anybody, to check with `discreet verify`."""
    note(request, caller, "read-certificate")
    return kept(dump_certificate(certificate_of(caller.campaign)), "certificate.json", "application/json")


@router.get("/exposures.{kind}")
def exposures(kind: Literal["csv", "json"], request: Request, caller: Owner) -> Response:
    """Who was shown which record, for an auditor."""
    note(request, caller, "read-exposures")
    form = exposure_form(caller.campaign.exposures(), simulation=caller.campaign.simulation, file=f"exposures.{kind}")
    if kind == "csv":
        return kept(exposure_csv(form), "exposures.csv", "text/csv")
    return kept(json.dumps(form, indent=1) + "\n", "exposures.json", "application/json")


def certificate_of(campaign: Campaign) -> dict[str, Any]:
    """The certificate of the ledger as far as it is public; computed once for a state of it and a day."""
    with _certifying:
        ledger, releases = public_ledger(campaign.store)
        key = (ledger.head, "" if releases is None else releases.time, today().isoformat())
        known = _certificates.get(ledger.id)
        if known is None or known[0] != key:
            known = _certificates[ledger.id] = (key, campaign.certificate())
        return known[1]


def verdicts_of(campaign: Campaign, form: dict[str, Any]) -> list[tuple[str, Verdict]]:
    """Everything computed again: the certificate from its events and against the ledger, and the store by itself."""
    lines = [bytes(line) for line in campaign.store.sink().read()]
    verdicts = [
        (
            "The certificate, against the ledger",
            verify_certificate(dump_certificate(form).encode(), lines=lines, most_seconds=math.inf),
        )
    ]
    config: CampaignFile | None = getattr(campaign.recipe, "config", None)
    if config is not None:
        from discreet.recipes.training_settings import as_declared
        from discreet.recipes.verification import verify_campaign

        verdicts.append(("The campaign in its store", verify_campaign(as_declared(campaign.store, config))))
    return verdicts


def verdict_form(verdict: Verdict) -> dict[str, Any]:
    """For programs."""
    checks = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in verdict.checks]
    return {"ok": verdict.ok, "checks": checks}


def _report(campaign: Campaign, audience: Audience) -> Report:
    return report_of(campaign, audience, certificate=certificate_of(campaign))


def kept(content: str, name: str, kind: str) -> Response:
    """A file to keep. Its name is one of ours."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)
