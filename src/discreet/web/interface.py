"""The JSON interface of an annotator: the verbs of the labelling page, for programs."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/api/v1")
