"""The owner's pages. What is here is for the owner alone: every route takes `owner` or `posted_by_owner`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from discreet.web.access import Visitor, owner
from discreet.web.pages import page

router = APIRouter(prefix="/owner", include_in_schema=False)


@router.get("")
def landing(found: Annotated[Visitor, Depends(owner)]) -> Response:
    """Where the campaign stands."""
    return page("owner/landing.html", found, status=200, campaign=found.campaign.status("owner"))
