"""`discreet ask`: the open questions of a campaign; the next query first, if it is time for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, show, shown_texts, where
from discreet.cli.log_json import LogOption, logged
from discreet.cli.progress import going_on
from discreet.errors import BadInput

if TYPE_CHECKING:
    from discreet.campaign import Campaign

FORMAT = "discreet.questions/1"


def ask_command(
    config: ConfigArgument,
    n: Annotated[
        int | None, typer.Option("--n", help="At most so many; under hidden selection, with --annotator only.", min=1)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write them into a CSV or JSONL file with a column to fill.")] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Only for this person: what they may see and have not answered.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace that file, and what people wrote into it.")] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the open questions, one a line: id of the question, a tab, id of the record. Audience: annotator.

    Of a campaign of teachers: they answer at once, charged before an answer is drawn, and the answers are printed.

    Charged before anybody is drawn; the same questions come again until they are answered. Who is shown what is
    recorded first (discreet exposure). Of a crowd campaign the released text stands in the place of the record's id.

    Example: discreet ask scans.toml --out questions.csv
    """
    from discreet.campaign.recipe import Answering
    from discreet.oracles import write_questions

    with logged(log_json, "ask") as log, opened(config, log) as campaign, going_on():
        if out is not None:
            _check_out(out, new=campaign.standing.step == "ask" and not overwrite)
        if isinstance(campaign.recipe, Answering):
            _answered(campaign, plain=n is None and out is None and annotator is None, as_json=as_json)
            return
        questions = campaign.ask(n, annotator=annotator, to="terminal" if out is None else out.name)
        texts = shown_texts(campaign)
    if out is not None:
        write_questions(out, questions, extra={"text": texts} if texts else None, overwrite=overwrite)
    form = {
        "format": FORMAT,
        "simulation": campaign.simulation,
        "audience": "annotator",
        "phase": campaign.standing.phase,
        "step": campaign.standing.step,
        "file": None if out is None else out.name,
        "questions": [
            {"id": one.id, "record": one.record, "phase": one.phase, "place": one.place}
            | ({"text": texts[one.record]} if texts else {})
            for one in questions
        ],
    }
    lines = [f"{len(questions)} open questions are in {out.name}"] if out else []
    if out is None:
        lines = [f"{one.id}\t{texts.get(one.record, one.record)}" for one in questions]
    show(form, "\n".join(lines or ["no open questions"]), as_json=as_json)
    if not as_json:
        typer.echo(where(campaign), err=True)


def _answered(campaign: Campaign, *, plain: bool, as_json: bool) -> None:
    """Questions to teachers, and their answers: paid for, and for anybody."""
    if not plain:
        raise BadInput(
            f"asking in {campaign.name}", "its teachers are asked, all at once", "Leave --n, --out and --annotator out"
        )
    campaign.due()
    asked = campaign.answer()
    now, told = campaign.standing, {one.question_id: one.value for one in campaign.store.answers()}
    questions = campaign.store.questions(now.phase) if asked else []
    form = {
        "format": "discreet.answers/1",
        "simulation": campaign.simulation,
        "audience": "world",
        "phase": now.phase,
        "step": now.step,
        "asked": asked,
        "answers": [{"record": one.record, "label": told.get(one.id)} for one in questions],
    }
    lines = [f"{one.record}\t{told.get(one.id) or '-'}" for one in questions]
    show(form, "\n".join(lines or ["no open questions"]), as_json=as_json)
    if not as_json:
        typer.echo(where(campaign), err=True)


def _check_out(out: Path, *, new: bool) -> None:
    """What can be refused is refused before a query is charged; ``new`` questions are not written over old ones."""
    from discreet.oracles.files_out import kind_of

    kind_of(out)
    if not out.absolute().parent.is_dir():
        raise BadInput(f"writing {out.name}", "its directory does not exist", "Create the directory first")
    if new and out.exists():
        raise BadInput(
            f"writing {out.name}",
            "there is a file of that name, and the next questions are others",
            "Take another name, or add --overwrite",
        )
