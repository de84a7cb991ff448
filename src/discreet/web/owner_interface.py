"""The JSON interface of the owner: status, ask, certificate, report, as the verbs of the command line print them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from discreet.web.access import Visitor, bearer_owner
from discreet.web.interface import REFUSALS

router = APIRouter(prefix="/api/v1/owner", responses=REFUSALS)
Owner = Annotated[Visitor, Depends(bearer_owner)]


@router.get("/status", summary="Where the campaign stands")
def status(found: Owner) -> dict[str, Any]:
    """As `discreet status --audience owner --json`."""
    return found.campaign.status("owner").to_json()


@router.post("/ask", summary="Ask the next query, if it is time for it")
def ask(found: Owner) -> dict[str, Any]:
    """Charged before anybody is drawn; repeated, nothing more is charged. Nobody is shown anything by it: published
    questions appear in the queues of annotators.
    """
    campaign = found.campaign
    campaign.due()
    now = campaign.standing
    return {
        "format": "discreet.asked/1",
        "simulation": campaign.simulation,
        "audience": "owner",
        "phase": now.phase,
        "step": now.step,
        "open": len(campaign.open()),
    }


@router.get(
    "/certificate",
    summary="What the campaign promises",
    response_class=Response,
    responses={200: {"content": {"application/json": {}}, "description": "As it is exported, to the byte."}},
)
def certificate(found: Owner) -> Response:
    """Saved to a file, anybody can check it: `discreet verify`."""
    from discreet.privacy.certificate.statement import dump_certificate

    return Response(dump_certificate(found.campaign.certificate()), media_type="application/json")


@router.get("/report", summary="A report for the owner")
def report(found: Owner) -> dict[str, Any]:
    """As `discreet report --audience owner --json`."""
    from discreet.report.gathering import report_of

    return report_of(found.campaign, "owner").to_json()
