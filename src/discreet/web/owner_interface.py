"""The JSON interface of the owner: the verbs of the command line, and what they print, for programs.

`ask` and `train` begin work and return; `progress` tells how far it is. Each names the phase it means and the ``price``
that `status` showed with what the next step costs: if the ledger or the plan has changed since, nothing is begun, and
the refusal (409) has the new price. So a request that is sent twice begins nothing twice. Everything takes an owner's
token. Audience: owner; what `certificate` and the public `report` return is the
public's.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, BeforeValidator, Field
from starlette.responses import JSONResponse, Response

from discreet.campaign import Campaign, CampaignState
from discreet.errors import NotNow
from discreet.privacy.certificate.statement import dump_certificate
from discreet.report.report_data import exposure_csv, exposure_form, report_of
from discreet.web.access import Visitor, address_of, bearer_owner, note, note_refusals
from discreet.web.interface import REFUSALS, Form, Refusal
from discreet.web.owner import certificate_of, verdict_form, verdicts_of
from discreet.web.owner_board import board_of, forecast_now
from discreet.web.owner_work import Verb, Worker, price_mark, price_of, works_of

router = APIRouter(prefix="/api/v1/owner", responses=REFUSALS)
Owner = Annotated[Visitor, Depends(bearer_owner)]


def _whole(value: Any) -> Any:
    """2.0 is a whole number in JSON; a string or a truth value is none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Phase = Annotated[
    int,
    Field(ge=0, le=10**6, description="The phase that is meant: where `status` says it stands."),
    BeforeValidator(_whole),  # last: before it, limits would be checked behind it, and not described
]


AgreedPrice = Annotated[
    str, Field(pattern="^[0-9a-f]{64}$", description="What is agreed to: `price` of `status`, beside its `next`.")
]


class Ask(Form):
    """Which query to ask, and the price that was shown for it."""

    phase: Phase
    price: AgreedPrice


class Train(Form):
    """Which phase to train, and the price that was shown for it. ``partial``: although some of its questions are open;
    the guarantee stays. Refused (409) under hidden selection.
    """

    phase: Phase
    price: AgreedPrice
    partial: bool = False


class NotBegun(Refusal):
    """Nothing was begun or charged. ``price``, ``next``: if it is that the price changed, what it is now."""

    price: str | None = None
    next: dict[str, Any] | None = None


BEGUN: dict[int | str, dict[str, Any]] = {
    409: {"model": NotBegun, "description": "Not now; or its price is another one than what was agreed to."}
}


class Trouble(BaseModel):
    """Why work ended: what was asked, what is so, what to do."""

    asked: str
    fact: str
    remedy: str


class WorkProgress(BaseModel):
    """Work of this server in the campaign. ``what``, ``done``, ``whole``: of what is being done now; public numbers.

    ``elsewhere``: another process works in it, as far as the system tells.
    """

    format: Literal["discreet.work/1"] = "discreet.work/1"
    simulation: bool
    audience: Literal["owner"] = "owner"
    state: Literal["idle", "running", "stopping", "done", "stopped", "failed"]
    elsewhere: bool
    verb: Verb | None = None
    phase: int | None = None
    by: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    what: str = ""
    done: int = 0
    whole: int = 0
    error: Trouble | None = None


@router.get("/status", summary="Where the campaign stands")
def status(caller: Owner) -> dict[str, Any]:
    """As `discreet status --audience owner --json`, with the budget of every path, what the next step costs, people,
    answers per day and agreement. ``price``: what `ask` and `train` are sent, to agree to that cost.
    """
    price = price_of(caller.hosted.store)  # before what is shown: what changes meanwhile is refused
    campaign = caller.hosted.campaign(at_once=True)
    mark = price_mark(campaign.store, campaign.state, price)
    return board_of(campaign, changed=caller.hosted.changed_in_queues()).to_json() | {"price": mark}


@router.post(
    "/ask",
    status_code=202,
    summary="Begin to ask the next query",
    response_model=WorkProgress,
    responses=BEGUN,
)
def ask(wanted: Ask, request: Request, caller: Owner) -> WorkProgress | JSONResponse:
    """Charged before anybody is drawn; then its questions appear in the queues of annotators."""
    with note_refusals(request, caller, "ask"):
        return _begin(request, caller, "ask", wanted)


@router.post(
    "/train",
    status_code=202,
    summary="Begin to train, or go on",
    response_model=WorkProgress,
    responses=BEGUN,
)
def train(wanted: Train, request: Request, caller: Owner) -> WorkProgress | JSONResponse:
    """Charged before anything is drawn. What was stopped or cut off goes on with the same labels and draws."""
    with note_refusals(request, caller, "train"):
        return _begin(request, caller, "train", wanted, partial=wanted.partial)


@router.post("/stop", summary="Stop what is being done")
def stop(request: Request, caller: Owner) -> WorkProgress:
    """Where it can be gone on with. What was charged stays charged."""
    worker = works_of(request).of(caller.hosted)
    worker.stop()
    note(request, caller, "stop")
    return _progress(worker, caller)


@router.get("/progress", summary="How far the work is")
def progress(request: Request, caller: Owner) -> WorkProgress:
    """Of what this server is doing, or did last."""
    return _progress(works_of(request).of(caller.hosted), caller)


@router.get(
    "/certificate",
    summary="What the campaign guarantees",
    response_class=Response,
    responses={200: {"content": {"application/json": {}}, "description": "The one text of the certificate."}},
)
def certificate(request: Request, caller: Owner) -> Response:
    """For anybody to check: `discreet verify`. Audience: public."""
    note(request, caller, "read-certificate")
    return Response(dump_certificate(certificate_of(caller.campaign)), media_type="application/json")


@router.get("/verification", summary="Whether it holds")
def verification(caller: Owner) -> dict[str, Any]:
    """Everything computed again, from the events and from the store."""
    verdicts = verdicts_of(caller.campaign, certificate_of(caller.campaign))
    return {
        "format": "discreet.verification/1",
        "simulation": caller.campaign.simulation,
        "audience": "owner",
        "ok": all(verdict.ok for _, verdict in verdicts),
        "verdicts": [{"what": name} | verdict_form(verdict) for name, verdict in verdicts],
    }


@router.get("/report", summary="A report")
def report(
    request: Request, caller: Owner, audience: Annotated[Literal["public", "owner"], Query()] = "public"
) -> dict[str, Any]:
    """As `discreet report --json`: the public's, unless the owner's is asked for."""
    note(request, caller, "read-report")
    return report_of(caller.campaign, audience, certificate=certificate_of(caller.campaign)).to_json()


@router.get("/exposures", summary="Who was shown which record")
def exposures(request: Request, caller: Owner) -> dict[str, Any]:
    """As `discreet exposure --json`."""
    note(request, caller, "read-exposures")
    return exposure_form(caller.campaign.exposures(), simulation=caller.campaign.simulation)


@router.get(
    "/exposures.csv",
    summary="Who was shown which record, as a table",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "A row an exposure, oldest first."}},
)
def exposure_rows(request: Request, caller: Owner) -> Response:
    """As `discreet exposure --out` writes it."""
    note(request, caller, "read-exposures")
    form = exposure_form(caller.campaign.exposures(), simulation=caller.campaign.simulation)
    return Response(exposure_csv(form), media_type="text/csv")


def _begin(
    request: Request, caller: Visitor, verb: Verb, wanted: Ask | Train, *, partial: bool = False
) -> WorkProgress | JSONResponse:
    store, worker = caller.hosted.store, works_of(request).of(caller.hosted)
    price = price_of(store)
    campaign = caller.hosted.campaign(at_once=True)
    now, phase = campaign.state, wanted.phase
    if phase != now.phase:
        raise NotNow(f"{verb} in phase {phase}", f"the campaign stands at phase {now.phase}", "Ask for its status")
    mark = price_mark(store, now, price)
    if not secrets.compare_digest(mark, wanted.price):
        worker.check_idle(verb, now)
        note(request, caller, verb, "refused", phase=phase)
        return _another_price(campaign, verb, mark)
    worker.start(
        verb,
        at=CampaignState(phase=phase, step=now.step),
        by=caller.user.name,
        address=address_of(request),
        partial=partial,
        price=price,
    )
    return _progress(worker, caller)


def _another_price(campaign: Campaign, verb: Verb, mark: str) -> JSONResponse:
    """What was agreed to is not what it would cost; nothing is begun."""
    forecast = forecast_now(campaign)
    refusal = NotBegun(
        error=f"{verb} was not begun: it was re-planned or charged since its price was shown; agree to the new one",
        price=mark,
        next=None if forecast is None else forecast.to_json(),
    )
    return JSONResponse(refusal.model_dump(), status_code=409)


def _progress(worker: Worker, caller: Visitor) -> WorkProgress:
    work, simulation = worker.work, caller.campaign.simulation
    if work is None:
        return WorkProgress(simulation=simulation, state="idle", elsewhere=worker.elsewhere)
    error = None if work.error is None else Trouble(asked=work.error[0], fact=work.error[1], remedy=work.error[2])
    return WorkProgress(
        simulation=simulation,
        state=work.state,
        elsewhere=worker.elsewhere,
        verb=work.verb,
        phase=work.phase,
        by=work.by,
        began=work.began,
        ended=work.ended,
        what=work.what,
        done=work.done,
        whole=work.total,
        error=error,
    )
