"""The steps of a campaign: `discreet ask`, `tell`, `train`, `run`, and `status`, which shows where it is."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.campaign_files import ConfigArgument, JsonOption, opened, oracle_of, show, where
from discreet.cli.progress import LogOption, interruptible, logged
from discreet.errors import BadInput, NotNow

if TYPE_CHECKING:
    from discreet.campaign import Campaign
    from discreet.campaign.state import Status


def ask_command(
    config: ConfigArgument,
    n: Annotated[
        int | None, typer.Option("--n", help="At most so many; under hidden selection, with --annotator only.", min=1)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write them into a CSV or JSONL file with a column to fill.")] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Only for this person: what they may see and have not answered.")
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option("--with", help="With --out: columns of the record to write beside, by commas; of pictures: path."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace that file, and what people wrote into it.")] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the open questions, one a line: id of the question, a tab, id of the record. Audience: annotator.

    Of a campaign of teachers: they answer at once, charged before an answer is drawn, and the answers are printed.

    Charged before anybody is drawn; the same questions come again until they are answered. Who is shown what is
    recorded first (discreet exposure). Of a crowd campaign the released text stands in the place of the record's id.

    Fill in the column label and give the same file to discreet tell.

    Example: discreet ask scans.toml --out questions.csv --with note,amount
    """
    from discreet.config import read_campaign
    from discreet.oracles import write_questions
    from discreet.oracles.question_files import kind_of
    from discreet.recipes.pool_campaigns import RecordColumns
    from discreet.recipes.specification import spec_of_campaign

    with logged(log_json, "ask") as log, opened(config, log) as campaign, interruptible():
        if out is not None:
            _check_out(out, new=campaign.state.step == "ask" and not overwrite)
        columns = None
        if shown is not None:
            cells = next(csv.reader([shown.replace("\n", " ")], skipinitialspace=True), [])
            names = list(dict.fromkeys(name.strip() for name in cells if name.strip()))
            if out is None or not names:
                fact = "columns of records are written into a file of questions"
                raise BadInput(f"asking with {shown}", fact, "Write --out questions.csv --with note,amount")
            columns = RecordColumns.checked(
                campaign, read_campaign(config), names, folder=out.absolute().parent, kind=kind_of(out)
            )
        if spec_of_campaign(campaign).answers_itself:
            _answered(campaign, plain=(n, out, annotator) == (None, None, None), as_json=as_json)
            return
        questions = campaign.ask(n, annotator=annotator, to="terminal" if out is None else out.name)
        texts = spec_of_campaign(campaign).shown_texts(campaign)
        extra = {"text": texts} if texts else {} if columns is None else columns.of(questions)
    if out is not None:
        write_questions(out, questions, extra=extra, overwrite=overwrite)
    form = {
        "format": "discreet.questions/1",
        "simulation": campaign.simulation,
        "audience": "annotator",
        "phase": campaign.state.phase,
        "step": campaign.state.step,
        "file": None if out is None else out.name,
        "questions": [
            {"id": question.id, "record": question.record, "phase": question.phase, "place": question.place}
            | ({"text": texts[question.record]} if texts else {})
            for question in questions
        ],
    }
    lines = [f"{len(questions)} open questions are in {out.name}"] if out else []
    if out is None:
        lines = [f"{question.id}\t{texts.get(question.record, question.record)}" for question in questions]
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
    now, values = campaign.state, {item.question_id: item.value for item in campaign.store.answers()}
    questions = campaign.store.questions(now.phase) if asked else []
    form = {
        "format": "discreet.answers/1",
        "simulation": campaign.simulation,
        "audience": "public",
        "phase": now.phase,
        "step": now.step,
        "asked": asked,
        "answers": [{"record": item.record, "label": values.get(item.id)} for item in questions],
    }
    lines = [f"{item.record}\t{values.get(item.id) or '-'}" for item in questions]
    show(form, "\n".join(lines or ["no open questions"]), as_json=as_json)
    if not as_json:
        typer.echo(where(campaign), err=True)


def _check_out(out: Path, *, new: bool) -> None:
    """What can be refused is refused before a query is charged; ``new`` questions are not written over old ones."""
    from discreet.oracles.question_files import kind_of

    kind_of(out)
    if not out.absolute().parent.is_dir():
        raise BadInput(f"writing {out.name}", "its directory does not exist", "Create the directory first")
    if new and out.exists():
        raise BadInput(
            f"writing {out.name}",
            "there is a file of that name, and the next questions are others",
            "Take another name, or add --overwrite",
        )


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

    from discreet.config import read_campaign
    from discreet.oracles import about, check_answers, read_answer_rows
    from discreet.recipes.labelled_records import answer_words
    from discreet.recipes.specification import spec_of_campaign

    read = read_campaign(config)
    several = read.task.kind == "multilabel"
    with opened(config) as campaign:
        if spec_of_campaign(campaign).answers_itself:
            raise NotNow(f"telling {campaign.name}", "its teachers answer, and nobody else", "Use discreet ask")
        questions = campaign.store.questions()
        gone, passed = campaign.withdrawn_questions(), []

        def withdrawn(cells: Mapping[str, Any]) -> bool:
            passed.append(about(cells, gone, campaign.pool.withdrew))
            return passed[-1]

        rows = read_answer_rows(
            answers, multilabel=several, words=answer_words(read), questions=questions, passed_over=withdrawn
        )
        attributed = [replace(row.answer, annotator=row.answer.annotator or annotator) for row in rows]
        check_answers(
            attributed,
            questions=questions,
            classes=read.task.classes,
            multilabel=several,
            lines=[row.line for row in rows],
        )
        result = campaign.tell(attributed)
    counts = {"new": result.new, "repeated": result.repeated, "corrected": result.corrected}
    left = len(campaign.open())
    form = {"format": "discreet.told/1", "simulation": campaign.simulation, "audience": "owner", **counts, "open": left}
    text = f"{result.new} new answers, {result.repeated} known, {result.corrected} corrected; {left} questions are open"
    if any(passed):
        form["withdrawn"] = sum(passed)
        text += f"\n{sum(passed)} rows about withdrawn records were passed over; remove them from the file"
    show(form, f"{text}\n{where(campaign, answered=not left)}", as_json=as_json)


def train_command(
    config: ConfigArgument,
    partial: Annotated[
        bool,
        typer.Option(help="Train although questions are open; the guarantee stays. Refused under hidden selection."),
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Charge and train; after a crash or an interrupt, go on where it was. A phase that is trained stays as it is.

    Example: discreet train scans.toml
    """
    from discreet.campaign.state import evaluations_of

    with logged(log_json, "train") as log, opened(config, log) as campaign:
        trained = _trained(campaign)
        phase = campaign.state.phase if trained is None else trained
        if trained is None:
            with interruptible():
                campaign.train(partial=partial)
        evaluation = evaluations_of(campaign.store.transitions()).get(phase)
    form = {
        "format": "discreet.trained/1",
        "simulation": campaign.simulation,
        "audience": "public" if campaign.releases() is None else "owner",
        "phase": phase,
        "evaluation": evaluation,
    }
    words = "is trained" if trained is None else "was trained before, and stays as it is"
    show(form, f"phase {phase} {words}{accuracy(evaluation)}\n{where(campaign)}", as_json=as_json)


def _trained(campaign: Campaign) -> int | None:
    """The phase that is trained when none is to be trained now: the process before this one got that far."""
    now = campaign.state
    if now.step == "done":
        return now.phase
    return now.phase - 1 if now.step == "ask" and now.phase else None


def accuracy(evaluation: Any) -> str:
    """An evaluation in a few words."""
    if not evaluation:
        return ""
    from discreet.trainers.metric_words import evaluation_words

    return f"; {evaluation_words(evaluation)}"


def run_command(
    config: ConfigArgument,
    partial: Annotated[
        bool,
        typer.Option(help="Train although questions are open that nobody answers now. Refused under hidden selection."),
    ] = False,
    log_json: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask, hand over to who answers, tell, train; until it is done, or people are waited for. Run it again then.

    Example: discreet run scans.toml
    """
    from discreet.campaign.loop import run
    from discreet.campaign.state import evaluations_of
    from discreet.config import read_campaign

    read = read_campaign(config)
    with logged(log_json, "run") as log, opened(config, log) as campaign, interruptible():
        ran = run(campaign, oracle_of(read, campaign), partial=partial)
        evaluations = evaluations_of(campaign.store.transitions())
    form = {
        "format": "discreet.run/1",
        "simulation": campaign.simulation,
        "audience": "owner",
        "phase": ran.state.phase,
        "step": ran.state.step,
        "done": ran.done,
        "waiting": ran.waiting,
        "evaluations": {str(phase): evaluation for phase, evaluation in evaluations.items()},
    }
    lines = [f"phase {phase}{accuracy(evaluation)}" for phase, evaluation in evaluations.items()]
    lines.append(f"{ran.waiting} questions wait for answers" if ran.waiting else "no question waits")
    show(form, "\n".join([*lines, where(campaign)]), as_json=as_json)


def status_command(
    config: ConfigArgument,
    audience: Annotated[
        str, typer.Option(help="public: what is public or paid for. owner: the answers, too.")
    ] = "public",
    as_json: JsonOption = False,
) -> None:
    """Phase, labels, budget, and how good the model is, as far as that was paid for.

    Example: discreet status scans.toml --audience owner
    """
    from discreet.recipes.specification import spec_of_campaign

    with opened(config, read_only=True) as campaign:
        status = campaign.status(audience)  # type: ignore[arg-type]
        spec = spec_of_campaign(campaign)
        log = spec.owner_facts(campaign) if status.audience == "owner" else None
        facts, chosen = spec.settings(campaign)
    form, lines = status.to_json() | facts, _lines(status)
    lines[3:3] = chosen
    if log is not None:
        form["log"] = log
        lines.append("log       " + ", ".join(f"{count} {name}" for name, count in log.items() if count is not None))
    lines.append(where(campaign) if audience == "owner" or status.releases is None else status.releases.next)
    show(form, "\n".join(lines), as_json=as_json)


def _lines(status: Status) -> list[str]:
    lines = [
        f"{status.name}, for the {status.audience}",
        f"labels    {status.asked} asked of {status.planned} planned",
        f"budget    epsilon {status.epsilon} at delta {status.delta}; the path that spent most: {status.spent:.4g}",
    ]
    from discreet.campaign.state import replanned_words

    if status.releases is not None:
        dates = ", ".join(f"phase {phase} on {day.isoformat()}" for phase, day in enumerate(status.releases.dates))
        lines.append(f"releases  {dates or 'no dates are planned'}; {status.releases.time}")
    lines += [replanned_words(change) for change in status.replanned]
    if status.quantiles is not None:
        lines.append(
            f"features  edges are private quantiles, for which every record of the pool paid {status.quantiles}"
        )
    if status.imported is not None:
        lines.append(f"imported  labels of phase 0; their records were chosen {status.imported}, as declared")
    if status.answers is not None:
        lines.append("answers   " + ", ".join(f"{count} {name}" for name, count in status.answers.items()))
    lines += [f"phase {phase}{accuracy(change)}" for phase, change in status.evaluations.items()]
    if not status.private:
        lines.append("NOT PRIVATE: records were chosen by looking.")
    if status.simulation:
        lines.append("SIMULATION: its noise was seeded; it proves nothing about people.")
    return lines
