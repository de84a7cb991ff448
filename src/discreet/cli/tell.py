"""`discreet tell`: answers that people saved in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, answer_words, opened, show, where

FORMAT = "discreet.told/1"


def tell_command(
    config: ConfigArgument,
    answers: Annotated[Path, typer.Argument(help="A CSV or JSONL file with question_id (or record) and label.")],
    annotator: Annotated[str, typer.Option(help="Who answered, where the file does not say.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Record answers: all of the file or, with an error, none. Telling again changes nothing. Audience: owner.

    An empty label is not an answer; SKIP is one. Something else than before is a correction, and history keeps both.

    Example: discreet tell scans.toml questions.csv
    """
    from dataclasses import replace

    from discreet.campaign.recipe import Answering
    from discreet.config import read_campaign
    from discreet.errors import NotNow
    from discreet.oracles import about, check_answers, read_answer_rows

    read = read_campaign(config)
    several = read.task.kind == "multilabel"
    with opened(config) as campaign:
        if isinstance(campaign.recipe, Answering):
            raise NotNow(f"telling {campaign.name}", "its teachers answer, and nobody else", "Use discreet ask")
        questions = campaign.store.questions()
        gone, passed = campaign.withdrawn_questions(), []

        def withdrawn(cells: Mapping[str, Any]) -> bool:
            passed.append(about(cells, gone, campaign.pool.withdrew))
            return passed[-1]

        rows = read_answer_rows(
            answers, multilabel=several, words=answer_words(read), questions=questions, passed_over=withdrawn
        )
        given = [replace(row.answer, annotator=row.answer.annotator or annotator) for row in rows]
        check_answers(
            given,
            questions=questions,
            classes=read.task.classes,
            multilabel=several,
            lines=[row.line for row in rows],
        )
        told = campaign.tell(given)
    counts = {"new": told.new, "repeated": told.repeated, "corrected": told.corrected}
    left = len(campaign.open())
    form = {"format": FORMAT, "simulation": campaign.simulation, "audience": "owner", **counts, "open": left}
    text = f"{told.new} new answers, {told.repeated} known, {told.corrected} corrected; {left} questions are open"
    if any(passed):
        form["withdrawn"] = sum(passed)
        text += f"\n{sum(passed)} rows about withdrawn records were passed over; remove them from the file"
    show(form, f"{text}\n{where(campaign, answered=not left)}", as_json=as_json)
