"""Papers of a campaign: report, certificate, what a verification finds, and who was shown what, to read and to keep.

What is offered first is the world's; what is the owner's says so in its name and on its page. A certificate takes
seconds to compute, and is kept for the state of the ledger that it is of. Audience: owner, and as each paper says.
"""

from __future__ import annotations

import json
import math
import threading
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from discreet.campaign import Campaign
from discreet.campaign.releases import public_ledger, today
from discreet.campaign.sealed_steps import ledger_of
from discreet.config import AnyCampaign
from discreet.privacy.certificate import Verdict
from discreet.privacy.certificate.statement import dump_certificate
from discreet.privacy.certificate.verification import verify_certificate
from discreet.report.assumptions import claim_in_words
from discreet.report.campaign_report import Report
from discreet.report.exposure_table import exposure_csv, exposure_form
from discreet.report.gathering import report_of
from discreet.report.page import to_html
from discreet.report.style import STYLE
from discreet.web.access import Visitor, note, owner
from discreet.web.pages import page

router = APIRouter(prefix="/owner", include_in_schema=False)
Owner = Annotated[Visitor, Depends(owner)]
Audience = Literal["world", "owner"]
LINKS = {"stylesheet": "/owner/report.css", "icon": "/static/icon.svg"}
_certificates: dict[str, tuple[tuple[str, str, str], dict[str, Any]]] = {}
_certifying = threading.Lock()


@router.get("/papers")
def papers(found: Owner) -> Response:
    """What there is."""
    exposures = exposure_form(found.campaign.exposures(), simulation=found.campaign.simulation)
    return page(
        "owner/papers.html",
        found,
        shown=exposures["shown"],
        rows=len(exposures["exposures"]),
        campaign=found.campaign.name,
        simulation=found.campaign.simulation,
    )


@router.get("/report/{audience}")
def report(audience: Audience, request: Request, found: Owner) -> Response:
    """To read."""
    note(request, found, "read-report")
    return Response(to_html(_report(found.campaign, audience), links=LINKS), media_type="text/html")


@router.get("/report/{audience}/file")
def report_file(audience: Audience, request: Request, found: Owner) -> Response:
    """To keep: one file with all that it needs."""
    note(request, found, "read-report")
    name = "report.html" if audience == "world" else "report-for-the-owner.html"
    return kept(to_html(_report(found.campaign, audience)), name, "text/html")


@router.get("/report.css")
def style(_: Owner) -> Response:
    """The style of a report, as a file: pages of this server carry none."""
    return Response(STYLE, media_type="text/css")


@router.get("/certificate")
def certificate(found: Owner) -> Response:
    """What is promised, in words."""
    campaign = found.campaign
    form = certificate_of(campaign)
    with ledger_of(campaign.store) as ledger:
        claim = claim_in_words(ledger.terms.budget, form)
    return page(
        "owner/certificate.html",
        found,
        form=form,
        claim=claim,
        campaign=campaign.name,
        simulation=campaign.simulation,
    )


@router.get("/verification")
def verification(found: Owner) -> Response:
    """Whether it holds, when everything is computed again."""
    campaign = found.campaign
    return page(
        "owner/verification.html",
        found,
        verdicts=verdicts_of(campaign, certificate_of(campaign)),
        campaign=campaign.name,
        simulation=campaign.simulation,
    )


@router.get("/certificate/file")
def certificate_file(request: Request, found: Owner) -> Response:
    """For anybody, to check with `discreet verify`."""
    note(request, found, "read-certificate")
    return kept(dump_certificate(certificate_of(found.campaign)), "certificate.json", "application/json")


@router.get("/exposures.{kind}")
def exposures(kind: Literal["csv", "json"], request: Request, found: Owner) -> Response:
    """Who was shown which record, for an auditor."""
    note(request, found, "read-exposures")
    form = exposure_form(found.campaign.exposures(), simulation=found.campaign.simulation, file=f"exposures.{kind}")
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
    found = [
        (
            "The certificate, against the ledger",
            verify_certificate(dump_certificate(form).encode(), lines=lines, most_seconds=math.inf),
        )
    ]
    config: AnyCampaign | None = getattr(campaign.recipe, "config", None)
    if config is not None:
        from discreet.recipes.verifying import verify_campaign

        found.append(("The campaign in its store", verify_campaign(config)))
    return found


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
