"""`discreet ask`: the open questions of a campaign; the next query first, if it is time for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, where
from discreet.cli.progress import after_charge

FORMAT = "discreet.questions/1"


def ask_command(
    config: ConfigArgument,
    n: Annotated[int | None, typer.Option("--n", help="At most so many.", min=1)] = None,
    out: Annotated[Path | None, typer.Option(help="Write them into a CSV or JSONL file with a column to fill.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace that file, and what people wrote into it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the open questions, one a line: id of the question, a tab, id of the record. Audience: annotator.

    Charged before anybody is drawn; the same questions come again until they are answered.

    Example: discreet ask scans.toml --out questions.csv
    """
    from discreet.oracles import write_questions

    with opened(config) as campaign, after_charge():
        questions = campaign.ask(n)
    if out is not None:
        write_questions(out, questions, overwrite=overwrite)
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "annotator",
        "phase": campaign.standing.phase,
        "step": campaign.standing.step,
        "file": None if out is None else out.name,
        "questions": [
            {"id": one.id, "record": one.record, "phase": one.phase, "place": one.place} for one in questions
        ],
    }
    lines = (
        [f"{len(questions)} open questions are in {out.name}"] if out else [f"{q.id}\t{q.record}" for q in questions]
    )
    show(form, "\n".join(lines or ["no open questions"]), as_json=as_json)
    if not as_json:
        typer.echo(where(campaign), err=True)
