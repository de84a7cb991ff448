"""The JSON interface of the owner: status, ask, certificate, report."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/api/v1")
