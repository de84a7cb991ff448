"""Ids of questions: they say nothing of a record, and are no record's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from discreet.campaign.recipe import Chosen
from discreet.records import Question


def question_of(answer: Any) -> Any:
    """Of an answer; what is no answer is refused elsewhere."""
    return getattr(answer, "question_id", None)


def named_questions(phase: int, found: Chosen, ids: Iterable[str]) -> list[Question]:
    """Their ids say nothing of a record, and are no record's own: a label must not reach another one."""
    lines, prefix = "\n".join(ids), ""  # an id of several lines may lengthen the prefix for nothing
    while re.search(rf"^{prefix}[0-9]+\.[0-9]+$", lines, re.MULTILINE):
        prefix += "q"
    return [
        Question(id=f"{prefix}{phase}.{place}", record=record, phase=phase, place=place)
        for place, record in enumerate(found.ids)
    ]
